"""The response to one POST: a JSON body, or an event stream if a message precedes the answer."""

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

# Pauses between attempts to store an answer, in seconds. The first are short, because a client waits for
# it.
FINISH_RETRY_SECONDS = (0.2, 0.5, 1.0, *[2.0] * 300)

log = logging.getLogger("mcp.reply")


@dataclass(frozen=True, slots=True)
class Answered:
    """A complete response. An empty body is sent with status 202."""

    body: bytes
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()
    session_id: str | None = None


@dataclass(frozen=True, slots=True)
class StreamReference:
    """A stream and the position to follow it from.

    Events up to ``replayed`` were stored before the client connected.
    """

    stream: str
    epoch: int
    after: int
    replayed: int = 0
    gap: bool = False  # True if events that the client has not seen were lost


ACCEPTED = Answered(b"", 202)


Lost = Callable[[str], None]


class Watched(Protocol):
    """A running call whose deadline is started only if the call does not finish quickly."""

    def watch(self) -> None:
        """Start the deadline."""
        ...


class Outlet(Protocol):
    """The destination of a call's messages: the reply to its POST, or the stream of a background call."""

    def send(self, encoded: bytes, kind: str = "message", lost: Lost | None = None) -> None:
        """Send a message that precedes the answer. If sending fails, call ``lost`` with the reason."""
        ...

    def answer(self, encoded: bytes, outcome: str = "") -> None:
        """Send the answer, and record the call's outcome."""
        ...


class RequestOutlet(Outlet, Protocol):
    """The outlet of one request. ``calls`` are the running calls whose answers it sends."""

    calls: list[Watched]


class Reply:
    """The answers to the requests of one POST.

    Answers are collected for one JSON body until a message precedes them or the grace period ends. Then a
    stream is opened. From then on, every message is appended to the stream before it is sent to the client
    (T-RES-06). Therefore a client that loses its connection can resume at any process. For the event loop
    only.
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

        ``shared`` is True if the reply belongs to a batch. If a call fails because a stream for its
        question could not be opened, ``error`` is set to the reason. As long as this process may write to
        the stream, the stream and its session are in ``writing``.
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
        # Called once the form of the response is certain, for transports that answer without a task.
        self.on_change: Callable[[], None] | None = None
        self.stream = ""
        self.epoch = 0
        self.broken = False
        self.error: McpError | None = None
        self.shared = shared

    def follow(self, stream: str, epoch: int) -> None:
        """Point to the stream of a background call, which will carry the answer."""
        self.stream, self.epoch = stream, epoch

    @property
    def finished(self) -> bool:
        """True if every request of the POST has been answered."""
        return self._expected == 0

    @property
    def waits(self) -> bool:
        """True if there is nothing to send yet."""
        return self._expected > 0 and not self.stream

    @property
    def whole(self) -> bytes:
        """The answer if it is the whole response and needs no stream, else empty."""
        return self.answers[0] if self._expected == 0 and not self.stream else b""

    def answer(self, encoded: bytes, outcome: str = "") -> None:
        """Add the response to one request."""
        self._expected -= 1
        if self._lost_question and outcome in ("error", "tool_error"):
            self.error = self._refusal
        if self._expected == 0:
            # A call refers to its reply. Dropping the calls here avoids a reference cycle.
            self.calls.clear()
        if not self.stream or self.broken:
            self.answers.append(encoded)
            if self._expected == 0:
                self._settle()
            return
        self._enqueue("final" if self._expected == 0 else "answer", encoded)

    def send(self, encoded: bytes, kind: str = "message", lost: Lost | None = None) -> None:
        """Send a notification or request to the client. This opens the stream if necessary.

        Do nothing after the last answer.
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
        """Wait up to ``grace`` seconds for the answers.

        Return True if all answers have been collected, and False if a stream is open.
        """
        if self._expected == 0 and not self.stream:
            return True
        # Many calls need only one more turn of the event loop, so a timer is used only after that turn.
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
        # If the event loop was blocked, the timer fires before callbacks that are ready. Run those
        # callbacks first, so that quick answers do not need a stream, which costs more.
        timer = loop.call_later(grace, loop.call_soon, self._grace_expired)
        try:
            await self._settled
        finally:
            timer.cancel()

    @property
    def _is_settled(self) -> bool:
        """True if the form of the response is certain.

        In a batch, it may be certain before ``settled`` waits for it.
        """
        return self.epoch != 0 or (self._expected == 0 and (not self.stream or self.broken))

    def _grace_expired(self) -> None:
        if self._expected == 0:
            return
        for call in self.calls:
            call.watch()
        if not self.stream:
            self._open()

    @property
    def _refusal(self) -> McpError:
        """The error for the caller of a question that cannot be sent."""
        return self._refused or Unavailable(CANNOT_ASK)

    def _settle(self) -> None:
        if self.on_change is not None:
            self.on_change()
        if self._settled is not None and not self._settled.done():
            self._settled.set_result(None)

    def _open(self) -> None:
        self.stream = "post-" + secrets.token_hex(9)
        # Answers of a batch that are already available come first on the stream (BATCH-04).
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
            # No stream can be opened: Redis is down or full, the principal's quota is used up, or the
            # session has ended. The answer is still sent as one JSON body.
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
            await self._shed.report(self._session, self._store)
            await self._store(encoded, kind)
        except StreamFinished:
            return  # The session has ended meanwhile.
        except StreamsError:
            if lost is not None:
                self._lose(lost)
                return
            self._shed.count_dropped(encoded)
            log.warning("A notification was dropped because its event stream could not be written")

    async def _store(self, encoded: bytes, kind: str = MESSAGE) -> None:
        owner = self._session.principal_key
        await self._streams.log.append(self.session_id, self.stream, encoded, kind=kind, owner=owner)

    async def _append_answer(self, kind: str, encoded: bytes) -> None:
        """Store an answer, and retry for about ten minutes."""
        owner = self._session.principal_key
        for pause in (*FINISH_RETRY_SECONDS, None):
            try:
                await self._shed.report(self._session, self._store)
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
