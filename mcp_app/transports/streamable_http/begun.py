"""A request that the short cut has begun to serve and whose tool waits: it goes on where it stands."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

from mcp_app.auth.principal import Principal
from mcp_app.execution.background.exchange_reply import ExchangeReply
from mcp_app.execution.running.reply import Reply
from mcp_app.protocol.messages import jsonrpc
from mcp_app.sessions.exchange import Exchange
from mcp_app.sessions.session import Session

# Where the ordinary way finds it in the scope of its request.
BEGUN = "mcp.begun"


@dataclass(slots=True)
class Begun:
    """The short cut holds it until it has an answer or the grace is over; then it goes the ordinary way."""

    principal: Principal
    session: Session | Exchange
    request: jsonrpc.Request
    reply: Reply | ExchangeReply
    until: float

    @property
    def answer(self) -> bytes:
        """The JSON body of a 200 answer; empty while there is none, and for what is no such answer."""
        return self.reply.whole

    @property
    def waits(self) -> bool:
        """There is nothing to send yet."""
        return self.reply.waits

    @property
    def grace(self) -> float:
        """How many seconds it may still take before it becomes a stream."""
        return max(self.until - monotonic(), 0.0)

    def go_on_in(self, scope: MutableMapping[str, Any]) -> None:
        """Have the request of ``scope`` go on with it."""
        scope[BEGUN] = self

    def watch(self, on_change: Callable[[], None] | None) -> None:
        """Have ``on_change`` called when there is something to send; None: not any more."""
        self.reply.on_change = on_change
