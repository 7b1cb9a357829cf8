"""A request that the short cut has begun to serve and that waits: it goes on where it stands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, MutableMapping
from contextvars import copy_context
from dataclasses import dataclass
from time import monotonic
from typing import Any

from mcp_app.auth.principal import Principal
from mcp_app.execution.background.exchange_reply import ExchangeReply
from mcp_app.execution.calls.reply import Answered, Reply
from mcp_app.protocol.messages import jsonrpc
from mcp_app.sessions.exchange import Exchange
from mcp_app.sessions.session import LiveSession

# Where the ordinary way finds it in the scope of its request.
STARTED = "mcp.begun"


@dataclass(slots=True)
class StartedCall:
    """A call of a tool. The short cut holds it until it has an answer or the grace is over.

    Then it goes the ordinary way.
    """

    principal: Principal
    session: LiveSession | Exchange
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
        """Seconds left until the answer becomes a stream."""
        return max(self.until - monotonic(), 0.0)

    def resume_in(self, scope: MutableMapping[str, Any]) -> None:
        """Have the request of ``scope`` go on with it."""
        scope[STARTED] = self

    def watch(self, on_change: Callable[[], None] | None) -> None:
        """Have ``on_change`` called when there is something to send; None: not any more."""
        self.reply.on_change = on_change


class StartedSession:
    """A session on its way to be opened, confirmed or ended: its request waits for one answer of Redis."""

    __slots__ = ("_answered", "_context", "_failed", "_outcome", "_work", "on_change", "principal")

    # What it waits for has a limit of its own, and it never becomes a stream.
    grace: None = None

    def __init__(self, principal: Principal, work: Coroutine[Any, Any, Answered]) -> None:
        """Begin ``work``. It runs in no task, which would cost as much as it: it may await futures only."""
        self.principal = principal
        self.on_change: Callable[[], None] | None = None
        self._answered: Answered | None = None
        self._failed: BaseException | None = None
        self._outcome: asyncio.Future[Answered] | None = None
        self._work = work
        self._context = copy_context()
        self._context.run(self._step)

    def _step(self, _: object = None) -> None:
        """Go on with the work until it waits again; what it waited for tells it how that went."""
        try:
            waited_for = self._work.send(None)
        except StopIteration as end:
            self._answered = end.value
        except BaseException as error:  # noqa: BLE001 - it is for the ordinary way to answer
            self._failed = error
        else:
            if waited_for is None:  # It lets others go first, as by ``asyncio.sleep(0)``.
                asyncio.get_running_loop().call_soon(self._step, context=self._context)
                return
            waited_for._asyncio_future_blocking = False  # as a task says that it has taken it
            waited_for.add_done_callback(self._step, context=self._context)
            return
        if self._outcome is not None and not self._outcome.done():
            self._settle(self._outcome)
        if self.on_change is not None:
            self.on_change()

    def _settle(self, outcome: asyncio.Future[Answered]) -> None:
        if self._failed is not None:
            outcome.set_exception(self._failed)
        elif self._answered is not None:
            outcome.set_result(self._answered)

    @property
    def answer(self) -> Answered | None:
        """The answer, if it is one that needs no more than the short cut says."""
        answered = self._answered
        return None if answered is None or answered.headers or answered.status > 202 else answered

    @property
    def waits(self) -> bool:
        """There is nothing to send yet."""
        return self._answered is None and self._failed is None

    async def outcome(self) -> Answered:
        """Return the answer to the request; raise its refusal."""
        if self._outcome is None:
            self._outcome = asyncio.get_running_loop().create_future()
            self._settle(self._outcome)
        return await self._outcome

    def resume_in(self, scope: MutableMapping[str, Any]) -> None:
        """Have the request of ``scope`` go on with it."""
        scope[STARTED] = self

    def watch(self, on_change: Callable[[], None] | None) -> None:
        """Call ``on_change`` when there is something to send; None stops that."""
        self.on_change = on_change
