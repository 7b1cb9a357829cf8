"""Requests that the short cut has started and that wait. ``Endpoint`` can continue them."""

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

# The key under which the scope of a request contains the started request for ``Endpoint``.
STARTED = "mcp.begun"


@dataclass(slots=True)
class StartedCall:
    """A started tool call. The short cut waits for its answer until the grace period ends.

    After that ``Endpoint`` continues the request.
    """

    principal: Principal
    session: LiveSession | Exchange
    request: jsonrpc.Request
    reply: Reply | ExchangeReply
    until: float

    @property
    def answer(self) -> bytes:
        """The JSON body of a 200 answer. Empty if there is no answer yet, or an answer of another kind."""
        return self.reply.whole

    @property
    def waits(self) -> bool:
        """True if there is nothing to send yet."""
        return self.reply.waits

    @property
    def grace(self) -> float:
        """The seconds until the answer becomes a stream."""
        return max(self.until - monotonic(), 0.0)

    def resume_in(self, scope: MutableMapping[str, Any]) -> None:
        """Store this object in ``scope``, so that ``Endpoint`` continues the started request."""
        scope[STARTED] = self

    def watch(self, on_change: Callable[[], None] | None) -> None:
        """Call ``on_change`` when there is something to send. None stops the calls."""
        self.reply.on_change = on_change


class StartedSession:
    """A started request that opens, confirms or ends a session, and waits for one answer from Redis."""

    __slots__ = ("_answered", "_context", "_failed", "_outcome", "_work", "on_change", "principal")

    # There is no grace period: the wait for Redis has its own limit, and the answer is never a stream.
    grace: None = None

    def __init__(self, principal: Principal, work: Coroutine[Any, Any, Answered]) -> None:
        """Start ``work`` without creating a task. ``work`` may await only futures.

        A task would cost as much as the work itself.
        """
        self.principal = principal
        self.on_change: Callable[[], None] | None = None
        self._answered: Answered | None = None
        self._failed: BaseException | None = None
        self._outcome: asyncio.Future[Answered] | None = None
        self._work = work
        self._context = copy_context()
        self._context.run(self._step)

    def _step(self, _: object = None) -> None:
        """Run the work until it waits again. The future that it awaited provides its own result or error."""
        try:
            waited_for = self._work.send(None)
        except StopIteration as end:
            self._answered = end.value
        except BaseException as error:  # noqa: BLE001 - ``Endpoint`` answers with the error
            self._failed = error
        else:
            if waited_for is None:  # The work yields to other callbacks, as ``asyncio.sleep(0)`` does.
                asyncio.get_running_loop().call_soon(self._step, context=self._context)
                return
            waited_for._asyncio_future_blocking = False  # A task resets this flag as well.
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
        """The answer, or None if the short cut cannot send it."""
        answered = self._answered
        return None if answered is None or answered.headers or answered.status > 202 else answered

    @property
    def waits(self) -> bool:
        """True if there is nothing to send yet."""
        return self._answered is None and self._failed is None

    async def outcome(self) -> Answered:
        """Return the answer to the request. Raises the error of the work."""
        if self._outcome is None:
            self._outcome = asyncio.get_running_loop().create_future()
            self._settle(self._outcome)
        return await self._outcome

    def resume_in(self, scope: MutableMapping[str, Any]) -> None:
        """Store this object in ``scope``, so that ``Endpoint`` continues the started request."""
        scope[STARTED] = self

    def watch(self, on_change: Callable[[], None] | None) -> None:
        """Call ``on_change`` when there is something to send. None stops the calls."""
        self.on_change = on_change
