"""The response to one modern request: its messages, then its answer. Held in memory and not resumable."""

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

# Longest wait for events of a background call before its stream is read again.
READ_SECONDS = 30.0
# Pause before a retry while the store with the answer is unavailable.
RETRY_SECONDS = 1.0
LOST = "What became of the call is not known: its record is gone."

log = logging.getLogger("mcp.reply")


class ExchangeReply:
    """The destination of a modern request's messages, as ``Reply`` is for legacy requests.

    ``answered`` is the complete response, empty until it exists. ``outcome`` is how the call ended, and
    ``error`` is the error if the request was refused at once. ``take`` returns the messages that precede
    the answer. If the client reads slowly, messages beyond a limit are dropped, but never the answer. For
    the event loop only.
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
        # Called whenever there is something to send, for transports that answer without a task.
        self.on_change: Callable[[], None] | None = None
        self.answered = b""
        self.outcome = ""
        self.error: McpError | None = None
        self.failed = False
        self.shared = False

    @property
    def is_plain(self) -> bool:
        """True if the answer is ready and no messages precede it."""
        return bool(self.answered) and not self._messages

    @property
    def waits(self) -> bool:
        """True if there is nothing to send yet."""
        return not self.has_something

    @property
    def whole(self) -> bytes:
        """The answer if it is a success and no messages precede it, else empty."""
        return self.answered if self.outcome in ("ok", "tool_error") and not self._messages else b""

    @property
    def has_something(self) -> bool:
        """True if there is something to send."""
        return bool(self.answered or self._messages)

    def send(self, encoded: bytes, kind: str = "message", lost: Lost | None = None) -> None:
        """Queue a notification. Ignore other kinds, because there is no stream to close and resume."""
        if self.answered or kind != "message":
            return
        full = len(self._messages) >= self._settings.max_stream_events
        if full or self._bytes + len(encoded) > self._settings.max_stream_bytes:
            log.warning("A notification was dropped because its client reads too slowly")
            return
        self._bytes += len(encoded)
        self._messages.append(encoded)
        self.wake()

    def answer(self, encoded: bytes, outcome: str = "") -> None:
        """Set the response unless it is already set."""
        if not self.answered:
            self.answered, self.outcome = encoded, outcome
            self.calls.clear()
            self.wake()

    def fail(self, words: str) -> None:
        """Set an error as the response, even if the call still runs."""
        self.failed = True
        self.answer(jsonrpc.encode_error(InternalError(words), self._request_id), "error")

    def follow(self, stream: str, epoch: int) -> None:
        """Relay the messages and the answer of a background call from its stream."""
        self._relay = asyncio.create_task(self._follow(stream, epoch))

    def take(self) -> list[bytes]:
        """Return and clear the queued messages."""
        taken, self._messages, self._bytes = self._messages, [], 0
        return taken

    def wake(self) -> None:
        """Wake the waiter in ``changed``."""
        if self.on_change is not None:
            self.on_change()
        if self._changed is None:
            self._changed = asyncio.Event()
        self._changed.set()

    async def changed(self, seconds: float) -> None:
        """Wait until there is something to send, until ``wake`` is called, or for ``seconds``."""
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
        """Wait up to ``grace`` seconds for something to send.

        Then start the deadlines of the unfinished calls.
        """
        if not self.has_something:
            # Most calls need only one more turn of the event loop.
            await asyncio.sleep(0)
            await self.changed(grace)
        for call in self.calls:
            call.watch()

    def close(self) -> None:
        """Stop the relay, because the client has disconnected."""
        if self._relay is not None:
            self._relay.cancel()

    async def _follow(self, stream: str, epoch: int) -> None:
        """Relay a worker's messages. If Redis lost the stream, restore it with the stored answer (R12)."""
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
                log.warning("The answer of a call could not be read: %s", error)
                await asyncio.sleep(RETRY_SECONDS)

    async def _relay_from(self, stream: str, start: Position) -> None:
        reader = self._streams.reader(self._session_id, stream, start.epoch, start.offset)
        try:
            while not (reader.finished or self.answered):
                for event in await reader.next(READ_SECONDS):
                    self._deliver(event)
        finally:
            reader.close()

    def _deliver(self, event: Event) -> None:
        if event.kind == "final":
            self.answer(event.data)
        else:
            self.send(event.data, event.kind)

    async def _found_again(self, stream: str) -> Position | None:
        """Return the start of the restored stream. Set an error as the response if the call has no record."""
        found = await self._background.lost_stream(self._session_id, stream)
        if found is None:
            self.fail(LOST)
            return None
        return found[1]
