"""The event stream of an HTTP+SSE session.

It writes the messages of the session's standalone stream, and the answers that this stream refers to.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from mcp_app.catalogue.snapshots.view import CatalogueView
from mcp_app.execution.calls.reply import StreamReference
from mcp_app.protocol.http import sse
from mcp_app.streams.base import CLOSE, FOLLOW, Event, StreamsError, StreamUnknown
from mcp_app.transports import unanswered_requests
from mcp_app.transports.open_streams import StreamReader
from mcp_app.transports.streamable_http.event_stream import EventStream
from mcp_app.transports.streamable_http.sse_response import ClientStalled

POLL_SECONDS: Final = 60.0

log = logging.getLogger("mcp.stream")


def encode_reference(reference: StreamReference) -> bytes:
    """Encode a reference to a stream as an event's data."""
    return b"%b %d" % (reference.stream.encode(), reference.epoch)


def _decode_reference(data: bytes) -> StreamReference:
    stream, _, epoch = data.decode().partition(" ")
    return StreamReference(stream, int(epoch), 0)


class HttpSseStream(EventStream):
    """The writer of one connection of HTTP+SSE.

    Events have no ids, because this transport cannot be resumed (SSE1-06).
    """

    def __init__(self, *given: Any, messages_path: str, **named: Any) -> None:
        """Create the writer. ``messages_path`` is the path for the client's POSTs."""
        super().__init__(*given, **named)
        self._messages_path = messages_path
        self._writing = asyncio.Lock()
        self._followers: set[asyncio.Task[None]] = set()
        self._connection: StreamReader | None = None

    async def _follow(
        self, reader: Any, stream: str, connection: StreamReader, gone: asyncio.Future[None]
    ) -> None:
        self._connection = connection
        try:
            await super()._follow(reader, stream, connection, gone)
        finally:
            followers = list(self._followers)
            for task in followers:
                task.cancel()
            await asyncio.gather(*followers, return_exceptions=True)

    async def _write_events(self, stream: str, events: list[Event]) -> bool:
        for event in events:
            if event.kind == FOLLOW:
                task = asyncio.create_task(self._pass_on(_decode_reference(event.data)))
                self._followers.add(task)
                task.add_done_callback(self._followers.discard)
            elif event.data and event.kind != CLOSE:
                await self._write(self._encode(event.data))
        return False

    async def _pass_on(self, reference: StreamReference) -> None:
        """Write the messages and the answer of a stream until it is complete."""
        streams, session = self._process.streams, self._session.id
        reader = streams.reader(session, reference.stream, reference.epoch, 0)
        try:
            while not reader.finished:
                for event in await reader.next(POLL_SECONDS):
                    if not event.data or event.kind == CLOSE:
                        continue
                    if not await unanswered_requests.covers(streams, session, event.data):
                        await self._write(self._encode(event.data))
            self._process.background.delivered(reference.stream)
            await streams.log.drop(session, reference.stream)
        except StreamsError:
            return  # The session has ended, or the stream has expired.
        except (ClientStalled, OSError) as error:
            log.info("A client of HTTP+SSE stopped reading: %s", type(error).__name__)
            if self._connection is not None:
                self._connection.stop()
        finally:
            reader.close()

    def _announce(self, connection: StreamReader, catalogue: CatalogueView) -> None:
        """Wake the writer, because other tasks write answers and must not be interrupted."""
        connection.wake()

    async def _write(self, data: bytes) -> None:
        async with self._writing:
            await super()._write(data)

    async def _prime(self, reference: StreamReference) -> None:
        """Send the URL for POSTs before any other event (SSE1-01)."""
        address = f"{self._messages_path}?session_id={self._session.id}"
        await self._write(sse.encode_event(address.encode(), event="endpoint"))

    def _encode(self, message: bytes) -> bytes:
        """Encode a message event (SSE1-02)."""
        return sse.encode_event(message, event="message")

    async def _found_again(self, stream: str) -> int:
        """Raise StreamUnknown, because the lost stream named the other streams of the connection."""
        raise StreamUnknown("Redis has lost the streams of this connection.")

    async def _report_gap(self) -> None:
        """Close the connection, because a client must not wait for an answer that was trimmed."""
        raise ClientStalled

    async def _send_away(self) -> None:
        """Do nothing. The client cannot resume, so there is no reconnection time to send."""

    def _rotation(self) -> float:
        return float("inf")
