"""One request to a server and its result, with the questions that a legacy server asks meanwhile."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from mcp_app.protocol.client import outgoing
from mcp_app.protocol.client.answers import Answered, Asked, Event, InputRequired, Notice
from mcp_app.protocol.client.faults import Kind, UpstreamFault
from mcp_app.protocol.client.outgoing import Outgoing, Peer
from mcp_app.protocol.messages import jsonrpc
from mcp_app.upstreams import connection
from mcp_app.upstreams.connection import OnEvent
from mcp_app.upstreams.server import UpstreamServer

SIDE_SECONDS: Final = 5.0
MAX_ASKED: Final = 20
# The time for all questions of a request together. The time for the request itself does not run meanwhile.
QUESTION_SECONDS: Final = 3_600.0

log = logging.getLogger("mcp.upstream")
_side: set[asyncio.Task[None]] = set()


class Asking:
    """A question of a legacy server. ``lapsed`` is set when the server no longer waits for the answer."""

    def __init__(self, exchange: Exchange, asked: Asked) -> None:
        self._exchange, self._number = exchange, asked.id
        self.method, self.params = asked.method, asked.params
        self.lapsed = asyncio.Event()

    async def answer(self, answer: Mapping[str, Any]) -> None:
        """Send the answer, which has a ``result`` or an ``error``. Raise UpstreamFault."""
        await self._exchange.answer(self._number, answer)


# Returns False for a question that cannot be answered.
OnQuestion = Callable[[Asking], bool]


class Exchange:
    """One request within its time, which stops while questions are open."""

    def __init__(
        self,
        server: UpstreamServer,
        peer: Peer,
        seconds: float,
        on_event: OnEvent | None,
        on_question: OnQuestion | None,
    ) -> None:
        self._server, self._peer = server, peer
        self._on_event, self._on_question = on_event, on_question
        self._seconds = seconds
        self._open: dict[jsonrpc.Id, Asking] = {}
        self._asked = 0
        self._limit = asyncio.timeout(seconds)
        self._since = 0.0

    async def run(self, sent: Outgoing) -> Answered | InputRequired:
        """Send the request and return its result. Raise UpstreamFault.

        Cancelling the task cancels the request at the server.
        """
        more = 0.0 if self._on_question is None else QUESTION_SECONDS
        self._since = time.monotonic()
        try:
            async with self._limit:
                reply = await connection.post(
                    self._server, sent, on_event=self._handle, seconds=self._seconds + more,
                    idle=self._idle, is_timed=self._on_question is None,
                )  # fmt: skip
        except TimeoutError:
            if not self._limit.expired():
                raise
            self._cancel(sent)
            raise UpstreamFault(Kind.TIMEOUT, "did not answer in time.") from None
        except asyncio.CancelledError:
            self._cancel(sent)
            raise
        finally:
            lapsed, self._open = self._open, {}
            for asking in lapsed.values():
                asking.lapsed.set()
        if not isinstance(reply.event, Answered | InputRequired):
            raise UpstreamFault(Kind.INVALID, "did not answer with a result.")
        return reply.event

    async def answer(self, number: jsonrpc.Id, answer: Mapping[str, Any]) -> None:
        """Send the answer to an open question. Raise UpstreamFault."""
        if self._open.pop(number, None) is None:
            return
        self._resume()
        await self._send(outgoing.answer(self._peer, number, answer))

    def _idle(self) -> float:
        """Return the time for which the server may be silent."""
        return QUESTION_SECONDS if self._open else connection.IDLE_SECONDS

    async def _handle(self, event: Event) -> None:
        if isinstance(event, Asked):
            await self._take(event)
        elif isinstance(event, Notice) and event.method == "notifications/cancelled":
            found = self._open.pop(_number_of(event), None)
            if found is not None:
                found.lapsed.set()
                self._resume()
        elif self._on_event is not None:
            await self._on_event(event)

    async def _take(self, asked: Asked) -> None:
        self._asked += 1
        if self._asked > MAX_ASKED:
            raise UpstreamFault(Kind.INVALID, f"asked more than {MAX_ASKED} questions during one request.")
        if asked.method == "ping":
            await self._send(outgoing.answered(self._peer, asked.id, {}))
            return
        asking = Asking(self, asked)
        if self._on_question is None or asked.id in self._open or not self._on_question(asking):
            await self._send(outgoing.declined(self._peer, asked.id, asked.method))
            return
        if not self._open:
            self._seconds -= time.monotonic() - self._since
            self._limit.reschedule(None)
        self._open[asked.id] = asking

    def _resume(self) -> None:
        """Continue the time of the request after the last open question."""
        if self._open:
            return
        self._since = time.monotonic()
        self._limit.reschedule(asyncio.get_running_loop().time() + max(self._seconds, 1.0))

    async def _send(self, answer: Outgoing) -> None:
        await connection.post(self._server, answer, seconds=SIDE_SECONDS)

    def _cancel(self, sent: Outgoing) -> None:
        # A modern server notices that the stream is closed.
        if not self._peer.is_modern and sent.id is not None:
            later(self._cancelled(sent.id))

    async def _cancelled(self, number: Any) -> None:
        try:
            await self._send(outgoing.cancelled(self._peer, number))
        except UpstreamFault as fault:
            log.info("The server %s %s", self._server.name, fault)


def later(work: Coroutine[Any, Any, None]) -> None:
    """Run ``work`` in a task that nothing waits for."""
    task = asyncio.get_running_loop().create_task(work)
    _side.add(task)
    task.add_done_callback(_side.discard)


def _number_of(event: Notice) -> Any:
    number = event.params.get("requestId")
    return number if isinstance(number, str | int) else None
