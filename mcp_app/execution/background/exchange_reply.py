"""The response to one modern request: messages, then the one answer. In memory only: it is not resumable."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from mcp_app.conf import Settings
from mcp_app.execution.background.service import Background
from mcp_app.execution.calls.reply import Lost, Watched
from mcp_app.protocol.errors import InternalError, McpError
from mcp_app.protocol.messages import jsonrpc
from mcp_app.streams.base import Event, Position, StreamsError, StreamUnknown
from mcp_app.streams.gateway import Streams

# How long a background call's stream is waited for at once; a lost wake-up only delays.
READ_SECONDS = 30.0
# The pause after an outage of a store that would have to be asked for the answer.
RETRY_SECONDS = 1.0
LOST = "What became of the call is not known: its record is gone."

log = logging.getLogger("mcp.reply")


class ExchangeReply:
    """An outlet for a call, as ``Reply`` is for legacy requests. Use it from the event loop only.

    ``answered`` is the whole response once there is one, ``outcome`` how the call ended, ``error`` why the
    request was refused at once, if it was. ``take`` gives the messages before the answer. What comes while
    the client reads slowly is shed beyond a bound; the answer never is.
    """

    __slots__ = (
        "_background",
        "_bytes",
        "_changed",
        "_messages",
        "_relay",
        "_request_id",
        "_session_id",
        "_settings",
        "_streams",
        "answered",
        "calls",
        "error",
        "failed",
        "on_change",
        "outcome",
        "shared",
    )

    def __init__(
        self,
        streams: Streams,
        background: Background,
        settings: Settings,
        session_id: str,
        request_id: jsonrpc.Id,
    ) -> None:
        self._streams = streams
        self._background = background
        self._settings = settings
        self._session_id = session_id
        self._request_id = request_id
        self._messages: list[bytes] = []
        self._bytes = 0
        self._changed: asyncio.Event | None = None
        self._relay: asyncio.Task[None] | None = None
        self.calls: list[Watched] = []
        # Called when there is something to send, for who holds the request without a task.
        self.on_change: Callable[[], None] | None = None
        self.answered = b""
        self.outcome = ""
        self.error: McpError | None = None
        self.failed = False
        self.shared = False

    @property
    def is_plain(self) -> bool:
        """The answer is all there is to send."""
        return bool(self.answered) and not self._messages

    @property
    def waits(self) -> bool:
        """There is nothing to send yet."""
        return not self.has_something

    @property
    def whole(self) -> bytes:
        """The answer, if it is all there is to send, as a plain success; empty before, and otherwise."""
        return self.answered if self.outcome in ("ok", "tool_error") and not self._messages else b""

    @property
    def has_something(self) -> bool:
        """Something waits to be sent."""
        return bool(self.answered or self._messages)

    def send(self, encoded: bytes, kind: str = "message", lost: Lost | None = None) -> None:
        """A notification; there is no stream to close and come back to, so other kinds mean nothing here."""
        if self.answered or kind != "message":
            return
        full = len(self._messages) >= self._settings.max_stream_events
        if full or self._bytes + len(encoded) > self._settings.max_stream_bytes:
            log.warning("A notification was shed: its client reads too slowly")
            return
        self._bytes += len(encoded)
        self._messages.append(encoded)
        self.wake()

    def answer(self, encoded: bytes, outcome: str = "") -> None:
        """The response."""
        if not self.answered:
            self.answered, self.outcome = encoded, outcome
            self.calls.clear()
            self.wake()

    def fail(self, words: str) -> None:
        """The response is that there will be none, whatever still works on it."""
        self.failed = True
        self.answer(jsonrpc.encode_error(InternalError(words), self._request_id), "error")

    def follow(self, stream: str, epoch: int) -> None:
        """Everything will come on a background call's stream."""
        self._relay = asyncio.create_task(self._follow(stream, epoch))

    def take(self) -> list[bytes]:
        """The messages to send before anything else."""
        taken, self._messages, self._bytes = self._messages, [], 0
        return taken

    def wake(self) -> None:
        """Have ``changed`` return."""
        if self.on_change is not None:
            self.on_change()
        if self._changed is None:
            self._changed = asyncio.Event()
        self._changed.set()

    async def changed(self, seconds: float) -> None:
        """Wait until there is something to send, ``wake`` was called, or the time has passed."""
        if self._changed is None:
            self._changed = asyncio.Event()
        if not self.has_something:
            try:
                async with asyncio.timeout(seconds):
                    await self._changed.wait()
            except TimeoutError:
                return
        self._changed.clear()

    async def settled(self, grace: float) -> None:
        """Wait for a quick answer; otherwise the deadline starts now."""
        if not self.has_something:
            # One turn of the loop is all that most calls need.
            await asyncio.sleep(0)
            await self.changed(grace)
        for call in self.calls:
            call.watch()

    def close(self) -> None:
        """The reader is gone."""
        if self._relay is not None:
            self._relay.cancel()

    async def _follow(self, stream: str, epoch: int) -> None:
        """Hand on what a worker writes; a stream that Redis lost is made again with its answer (R12)."""
        start: Position | None = Position(epoch, 0)
        while not self.answered:
            try:
                if start is None:
                    start = await self._found_again(stream)
                else:
                    await self._relay_from(stream, start)
                    start = None
            except StreamUnknown:
                start = None
            except (StreamsError, McpError) as error:
                log.warning("The answer of a call cannot be looked for: %s", error)
                await asyncio.sleep(RETRY_SECONDS)

    async def _relay_from(self, stream: str, start: Position) -> None:
        reader = self._streams.reader(self._session_id, stream, start.epoch, start.offset)
        try:
            while not (reader.finished or self.answered):
                for event in await reader.next(READ_SECONDS):
                    self._hand_on(event)
        finally:
            reader.close()

    def _hand_on(self, event: Event) -> None:
        if event.kind == "final":
            self.answer(event.data)
        else:
            self.send(event.data, event.kind)

    async def _found_again(self, stream: str) -> Position | None:
        """Where the stream begins now; without a record of the call there is no more to wait for."""
        found = await self._background.lost_stream(self._session_id, stream)
        if found is None:
            self.fail(LOST)
            return None
        return found[1]
