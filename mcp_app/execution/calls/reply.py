"""The response to one POST: a JSON body, or an event stream once a message precedes the answer."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from mcp_app.execution.calls.load_shedding import Shed
from mcp_app.protocol.errors import McpError, Unavailable
from mcp_app.sessions.client_requests import CANNOT_ASK
from mcp_app.sessions.negotiated import Negotiated
from mcp_app.sessions.quota import admit, keep_answer
from mcp_app.streams.base import MESSAGE, StreamFinished, StreamsError
from mcp_app.streams.gateway import Streams

# An answer is stored soon after Redis accepts writes again, because its client waits on the stream.
FINISH_RETRY_SECONDS = (0.2, 0.5, 1.0, *[2.0] * 300)

log = logging.getLogger("mcp.reply")


@dataclass(frozen=True, slots=True)
class Answered:
    """A complete response, or an empty one (202)."""

    body: bytes
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()
    session_id: str | None = None


@dataclass(frozen=True, slots=True)
class StreamReference:
    """A stream to follow from a position. Events up to ``replayed`` were stored before the connection."""

    stream: str
    epoch: int
    after: int
    replayed: int = 0
    gap: bool = False  # earlier events that the client has not seen were lost


ACCEPTED = Answered(b"", 202)


Lost = Callable[[str], None]


class Watched(Protocol):
    """A running call whose deadline starts once it proves not to be quick."""

    def watch(self) -> None:
        """Start the deadline."""
        ...


class Outlet(Protocol):
    """The destination of a call's messages: the reply of its POST, or a background call's stream."""

    def send(self, encoded: bytes, kind: str = "message", lost: Lost | None = None) -> None:
        """Send a message before the answer. If that fails, call ``lost`` with the reason."""
        ...

    def answer(self, encoded: bytes, outcome: str = "") -> None:
        """Send the answer, with the call's outcome."""
        ...


class RequestOutlet(Outlet, Protocol):
    """The outlet of one request, with the ``calls`` that answer on it."""

    calls: list[Watched]


class Reply:
    """The collected answers to the requests of one POST.

    As long as only answers were sent, they are collected for one JSON body. ``send`` or the end of the grace
    opens a stream. From then on everything is appended there in order before a client reads it (T-RES-06), so
    a client that loses the connection can resume at any process. Event loop only.
    """

    __slots__ = (
        "_expected",
        "_lost_question",
        "_outbox",
        "_pump",
        "_refused",
        "_session",
        "_settled",
        "_shed",
        "_streams",
        "_writing",
        "answers",
        "broken",
        "calls",
        "epoch",
        "error",
        "on_change",
        "session_id",
        "shared",
        "stream",
    )

    def __init__(
        self,
        streams: Streams,
        session: Negotiated,
        expected: int,
        writing: set[tuple[str, str]] | None = None,
        *,
        shared: bool = False,
    ) -> None:
        """Create a reply for ``expected`` answers.

        ``shared`` is True for the members of a batch. ``error`` becomes the reason if a call failed because
        its question needed a stream. The stream and its session are in ``writing`` as long as this process
        will write to it.
        """
        self._streams = streams
        self._expected = expected
        self._session = session
        self._shed = Shed()
        self._refused: McpError | None = None
        self._lost_question = False
        self._writing = set() if writing is None else writing
        self._outbox: deque[tuple[str, bytes, Lost | None]] = deque()
        self._pump: asyncio.Task[None] | None = None
        self._settled: asyncio.Future[None] | None = None
        self.session_id = session.id
        self.answers: list[bytes] = []
        self.calls: list[Watched] = []
        # Called once the form of the response is settled, for owners of the request that have no task.
        self.on_change: Callable[[], None] | None = None
        self.stream = ""
        self.epoch = 0
        self.broken = False
        self.error: McpError | None = None
        self.shared = shared

    def follow(self, stream: str, epoch: int) -> None:
        """Refer to a background call's stream, which carries the answer."""
        self.stream, self.epoch = stream, epoch

    @property
    def finished(self) -> bool:
        """True if every request of the POST has its answer."""
        return self._expected == 0

    @property
    def waits(self) -> bool:
        """True if there is nothing to send yet."""
        return self._expected > 0 and not self.stream

    @property
    def whole(self) -> bytes:
        """The answer if it is the complete response without a stream, else empty."""
        return self.answers[0] if self._expected == 0 and not self.stream else b""

    def answer(self, encoded: bytes, outcome: str = "") -> None:
        """Add the response to one request."""
        self._expected -= 1
        if self._lost_question and outcome in ("error", "tool_error"):
            self.error = self._refusal
        if self._expected == 0:
            # Calls refer to their reply. Without this, each would be part of a reference cycle.
            self.calls.clear()
        if not self.stream or self.broken:
            self.answers.append(encoded)
            if self._expected == 0:
                self._settle()
            return
        self._enqueue("final" if self._expected == 0 else "answer", encoded)

    def send(self, encoded: bytes, kind: str = "message", lost: Lost | None = None) -> None:
        """Send a notification or request to the client, which opens the stream.

        Ignored after the last answer.
        """
        if self._expected == 0:
            return
        if self.broken:
            self._lose(lost)
            return
        if not self.stream:
            self._open()
        self._enqueue(kind, encoded, lost)

    async def settled(self, grace: float) -> bool:
        """Wait up to ``grace`` seconds.

        Return True if all answers are collected, False if a stream is open.
        """
        if self._expected == 0 and not self.stream:
            return True
        # Many calls need only one more turn of the loop. Use a timer for the others only.
        await asyncio.sleep(0)
        if self._expected == 0 and not self.stream:
            return True
        if not self._is_settled:
            await self._wait(grace)
        for call in self.calls:
            call.watch()
        return self.epoch == 0

    async def _wait(self, grace: float) -> None:
        loop = asyncio.get_running_loop()
        self._settled = loop.create_future()
        # After the loop was blocked, the timer fires first. Run ready callbacks before it, so that quick
        # answers do not turn into streams, which cost more.
        timer = loop.call_later(grace, loop.call_soon, self._grace_over)
        try:
            await self._settled
        finally:
            timer.cancel()

    @property
    def _is_settled(self) -> bool:
        """True if the form of the response is certain.

        For batches this may be so before anything waits for it.
        """
        return self.epoch != 0 or (self._expected == 0 and (not self.stream or self.broken))

    def _grace_over(self) -> None:
        if self._expected == 0:
            return
        for call in self.calls:
            call.watch()
        if not self.stream:
            self._open()

    @property
    def _refusal(self) -> McpError:
        """The error for a question that cannot be sent."""
        return self._refused or Unavailable(CANNOT_ASK)

    def _settle(self) -> None:
        if self.on_change is not None:
            self.on_change()
        if self._settled is not None and not self._settled.done():
            self._settled.set_result(None)

    def _open(self) -> None:
        self.stream = "post-" + secrets.token_hex(9)
        # Quick answers of a batch precede the other messages on the stream (BATCH-04).
        self._outbox.extend(("answer", held, None) for held in self.answers)
        self.answers.clear()
        self._start_pump()

    def _enqueue(self, kind: str, encoded: bytes, lost: Lost | None = None) -> None:
        self._outbox.append((kind, encoded, lost))
        self._start_pump()

    def _start_pump(self) -> None:
        if self._pump is None:
            self._pump = asyncio.create_task(self._run_pump())

    async def _run_pump(self) -> None:
        try:
            if not self.epoch and not await self._create():
                return
            while self._outbox:
                await self._append(*self._outbox.popleft())
        finally:
            self._pump = None

    async def _create(self) -> bool:
        try:
            owner = self._session.principal_key
            await admit(self._streams, owner)
            self.epoch = (await self._streams.log.open(self.session_id, self.stream, owner=owner))[0]
        except (StreamsError, McpError) as error:
            # No stream is available: Redis is down or full, the principal's quota is used up, or the session
            # ended. The answer is still sent as one JSON body.
            self.broken = True
            if isinstance(error, McpError):
                self._refused = error
            unsent, self._outbox = self._outbox, deque()
            for kind, data, lost in unsent:
                if kind in ("answer", "final"):
                    self.answers.append(data)
                self._lose(lost)
            if self._expected == 0:
                self._settle()
            return False
        self._writing.add((self.session_id, self.stream))
        self._settle()
        return True

    def _lose(self, lost: Lost | None) -> None:
        if lost is not None:
            self._lost_question = True
            lost(self._refusal.message)

    async def _append(self, kind: str, encoded: bytes, lost: Lost | None) -> None:
        if kind in ("answer", "final"):
            await self._append_answer(kind, encoded)
            if kind == "final":
                self._writing.discard((self.session_id, self.stream))
            return
        try:
            await self._shed.tell(self._session, self._store)
            await self._store(encoded, kind)
        except StreamFinished:
            return  # The session ended meanwhile.
        except StreamsError:
            if lost is not None:
                self._lose(lost)
                return
            self._shed.note(encoded)
            log.warning("A notification was dropped because its event stream could not be written")

    async def _store(self, encoded: bytes, kind: str = MESSAGE) -> None:
        owner = self._session.principal_key
        await self._streams.log.append(self.session_id, self.stream, encoded, kind=kind, owner=owner)

    async def _append_answer(self, kind: str, encoded: bytes) -> None:
        """Store an answer, with retries for about ten minutes."""
        owner = self._session.principal_key
        for pause in (*FINISH_RETRY_SECONDS, None):
            try:
                await self._shed.tell(self._session, self._store)
                final = kind == "final"
                await keep_answer(self._streams, self.session_id, self.stream, encoded, owner, final=final)
            except StreamFinished:
                return  # The session has ended, so the stream may no longer be readable.
            except StreamsError:
                if pause is None:
                    log.error("An answer was lost: its event stream could not be written")  # noqa: TRY400
                    return
                await asyncio.sleep(pause)
            else:
                return
