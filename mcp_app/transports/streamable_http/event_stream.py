"""Writing of a stored stream to a connection: replay, then live events, with keep-alives."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, MutableMapping
from functools import partial
from typing import Any

from mcp_app.catalogue.snapshots.view import CatalogueView
from mcp_app.execution.calls.reply import StreamReference
from mcp_app.process import Process
from mcp_app.protocol.errors import McpError, Unavailable
from mcp_app.protocol.http import sse
from mcp_app.protocol.http.event_id import EventId
from mcp_app.protocol.messages import jsonrpc
from mcp_app.protocol.messages.logging import at_least
from mcp_app.protocol.versions import V2025_11_25
from mcp_app.sessions.session import STANDALONE, LiveSession
from mcp_app.streams.base import Event, StreamFinished, StreamsError, StreamUnknown
from mcp_app.streams.reader import Reader
from mcp_app.transports import list_changed, unanswered_requests
from mcp_app.transports.open_streams import Connections, StreamReader
from mcp_app.transports.streamable_http.answers import Headers, Send
from mcp_app.transports.streamable_http.request_body import Receive
from mcp_app.transports.streamable_http.sse_response import Authenticated, ClientStalled, SseResponse

GAP = "Earlier messages of this stream are no longer kept."

# The maximum size of one write in bytes. A larger message is written alone.
WRITE_BYTES = 64 * 1024
log = logging.getLogger("mcp.stream")


class EventStream(SseResponse):
    """The writer of one event stream to one connection."""

    def __init__(
        self, process: Process, connections: Connections, opener: Authenticated, session: LiveSession
    ) -> None:
        super().__init__(process, connections, opener)
        self._session = session
        # The catalogue revision that is stored as announced to the client.
        self._stored = session.announced
        # The announcement in a write that has started but not finished.
        self._half_sent: list_changed.Announcement | None = None
        # True if the stream's task waits for events or reads them, and therefore writes nothing.
        self._is_waiting = False
        # True if the last event of the stream was written, on this connection or an earlier one.
        self._is_answered = False

    async def run(
        self,
        scope: MutableMapping[str, Any],
        receive: Receive,
        send: Send,
        reference: StreamReference,
        token: str = "",
        extra: Headers = (),
    ) -> None:
        """Write the stream from the position of ``reference``, and return when the connection ends."""
        self._replayed = reference.replayed
        streams = self._process.streams
        reader = streams.reader(self._session.id, reference.stream, reference.epoch, reference.after)
        standalone = reference.stream == STANDALONE
        connection = StreamReader(
            self._session.id, self._principal.key, standalone=standalone, wake=reader.poke
        )
        connection.token = token
        connection.announce = partial(self._on_change, connection)
        try:
            with self._registered(connection, receive) as gone:
                await self._begin(scope, send, extra)
                await self._prime(reference)
                if reference.gap:
                    await self._report_gap()
                try:
                    await self._follow(reader, reference.stream, connection, gone)
                finally:
                    await self._store_announced()
                await asyncio.sleep(0)  # Lets the event loop report a client that has disconnected.
                if not gone.done():
                    if self._is_answered:
                        self._process.background.delivered(reference.stream)
                    await self._end()
        except ClientStalled:
            log.info("A client stopped reading stream %s and was disconnected", reference.stream)
        except OSError:
            log.info("A client of stream %s disconnected", reference.stream)  # ASGI: send() raises OSError
        finally:
            reader.close()

    async def _follow(
        self, reader: Reader, stream: str, connection: StreamReader, gone: asyncio.Future[None]
    ) -> None:
        rotate_at = self._rotation()
        clock = time.monotonic
        while not gone.done():
            await self._finish()
            if connection.standalone:
                await self._announce_catalogue()
            try:
                self._is_waiting = True
                events = await self._next(reader, stream, max(self._pause(), 0.01))
            except (StreamUnknown, StreamFinished, McpError):
                return  # The session has ended, or the stream no longer has a writer.
            except StreamsError:
                await asyncio.sleep(1)
                events = []
            finally:
                self._is_waiting = False
            if reader.gap:
                await self._report_gap()
                reader.gap = False
            if gone.done():
                return
            closed = await self._write_events(stream, events)
            if reader.finished and not events:
                closed = self._is_answered = True
            if closed:
                return
            if connection.stopping or clock() >= rotate_at or self._is_expired():
                await self._send_away()
                return
            if clock() >= self._keep_alive_due():
                await self._write(sse.KEEP_ALIVE)
            if (connection.stale or self._is_check_due()) and not await self._check(connection):
                return

    async def _next(self, reader: Reader, stream: str, seconds: float) -> list[Event]:
        """Return the next events. If Redis lost the stream, continue at the start of its new epoch (R12)."""
        try:
            return await reader.next(seconds)
        except StreamUnknown:
            reader.restart(await self._found_again(stream))
            return []

    async def _found_again(self, stream: str) -> int:
        """Return the new epoch of a lost stream that is still written.

        Raises StreamUnknown, StreamFinished or McpError for other streams.
        """
        process, session = self._process, self._session
        if stream == STANDALONE or (session.id, stream) in process.dispatcher.writing:
            return (await process.streams.log.open(session.id, stream, owner=session.principal_key)).epoch
        found = await process.background.lost_stream(session.id, stream)
        if found is None:
            raise StreamUnknown("This stream has no more responses.")
        return found[1].epoch

    async def _write_events(self, stream: str, events: list[Event]) -> bool:
        """Write events in order. Return True if the connection must be closed after them."""
        chunks: list[bytes] = []
        waiting, closed, is_final = 0, False, False
        for event in events:
            position = EventId(stream, event.epoch, event.offset).encode()
            if event.kind == "close":
                # T-POST-14: older clients cannot reconnect for the rest. A client that already reconnected
                # because of this close must not be closed by it again.
                if self._session.version < V2025_11_25 or event.offset <= self._replayed:
                    continue
                # The close has its own event id, so a client that resumes after it does not get it again.
                chunks.append(sse.encode_event(b"", position, int(event.data)))
                closed = True
                break
            if event.data and not await self._is_silenced(event):
                chunks.append(sse.encode_event(event.data, position))
                waiting += len(chunks[-1])
                if waiting >= WRITE_BYTES:
                    # Writes are split, because each is buffered twice for a client that reads slowly (R16).
                    await self._write(b"".join(chunks))
                    chunks, waiting = [], 0
            closed = is_final = event.kind == "final"
        if chunks:
            await self._write(b"".join(chunks))
        self._is_answered = is_final
        if events and stream == STANDALONE:
            last = events[-1]
            await _best_effort(self._process.standalone.delivered(self._session, last.epoch, last.offset))
        return closed

    async def _is_silenced(self, event: Event) -> bool:
        """Return True if the event answers a request that its client cancelled (CAN-02).

        The stream still ends. With the setting ``answer_cancelled`` such answers are written.
        """
        if self._settings.answer_cancelled:
            return False
        return await unanswered_requests.covers(self._process.streams, self._session.id, event.data)

    async def _prime(self, reference: StreamReference) -> None:
        """Send a first event id, from which clients of 2025-11-25 can resume (T-POLL-01, T-POLL-02)."""
        if self._session.version >= V2025_11_25:
            position = EventId(reference.stream, reference.epoch, reference.after)
            await self._write(sse.encode_priming(position.encode()))
        else:
            await self._write(sse.KEEP_ALIVE)

    async def _send_away(self) -> None:
        """Send the time after which the client reconnects, because this connection ends before its stream."""
        await self._write(sse.encode_retry(self._settings.stream_retry_ms))

    def _encode(self, message: bytes) -> bytes:
        """Encode a message without an event id, so that clients do not resume from it."""
        return sse.encode_event(message)

    async def _report_gap(self) -> None:
        """Tell the client that earlier messages were trimmed (T-RES-08). The answer still follows."""
        await self._write(b": %b\n\n" % GAP.encode())
        if at_least("warning", self._session.log_level):
            params = {"level": "warning", "logger": "mcp.stream", "data": GAP}
            await self._write(self._encode(jsonrpc.encode_notification("notifications/message", params)))

    async def _announce_catalogue(self) -> None:
        """Send the catalogue changes since the last announcement to this client.

        If Redis is unavailable, the changes are sent later.
        """
        try:
            found, revision = await list_changed.due(self._process.streams, self._session, self._catalogue())
        except StreamsError:
            return
        if revision == self._session.announced:
            return
        if found:
            await self._write(b"".join([self._encode(message) for message, _ in found]))
        self._log_announced(found, revision)

    def _on_change(self, connection: StreamReader) -> None:
        """Announce catalogue changes, or end the stream of a deleted server."""
        catalogue = self._catalogue()
        if catalogue.server.removed:
            connection.stop()  # A client that reconnects gets an error, because its server was deleted.
        else:
            self._announce(connection, catalogue)

    def _announce(self, connection: StreamReader, catalogue: CatalogueView) -> None:
        """Announce catalogue changes synchronously, or wake the stream's task if the write has to wait."""
        due = list_changed.announcement(self._session, catalogue)
        if due is list_changed.NOTHING:
            return
        clear = self._is_waiting and self._unfinished is None and not connection.stopping
        if due.asks or not clear or connection.stale or self._is_check_due():
            connection.wake()
        elif not due.events or self._write_at_once(due.events):
            self._log_announced(due.notices, due.revision)
        else:
            self._half_sent = due
            connection.wake()

    async def _finish(self) -> None:
        await super()._finish()
        if self._half_sent is not None:
            # The announcement is recorded after its write, so that a lost one is repeated on reconnection.
            due, self._half_sent = self._half_sent, None
            self._log_announced(due.notices, due.revision)

    def _log_announced(self, found: list[list_changed.Notice], revision: int) -> None:
        list_changed.log_notices(self._process.log, self._session, found)
        self._session.announced = revision

    def _catalogue(self) -> CatalogueView:
        """Return the client's view of the current catalogue, because the stream outlives snapshots."""
        return self._process.views.of(self._principal.permissions, self._session.path)

    async def _store_announced(self) -> None:
        """Store the announced revision for the client's next connection.

        The next connection waits for this connection's lease, so it reads the stored revision. Announcements
        themselves do not wait for Redis, and thousands of streams do not write to it at the same time. If the
        process is killed first, the announcement is repeated.
        """
        announced = self._session.announced
        if announced == self._stored:
            return
        try:
            await self._process.sessions.announced(self._session, announced)
        except StreamsError as error:
            log.info("The announced revisions of an event stream could not be stored: %s", error)
        else:
            self._stored = announced

    async def _check(self, connection: StreamReader) -> bool:
        """Authenticate again, and return False if the stream must end (S5, AUTH-18)."""
        connection.stale = False
        try:
            principal = await self._authenticate()
            await self._store_announced()
            self._session = await self._process.sessions.load(self._session.id, principal.key)
            self._record_activity(self._session.id)
            if connection.token and not await self._process.standalone.renew(self._session, connection.token):
                return False
            self._principal = principal
            if self._catalogue().server.removed:
                return False
        except (StreamsError, Unavailable):
            return True  # The check is not possible now. A short outage must not disconnect every reader.
        except McpError:
            return False
        return True

    def _rotation(self) -> float:
        """Return the time to close the connection, or infinity if clients cannot resume.

        Regular closing makes a restart of the server look like an ordinary reconnection.
        """
        if self._session.version < V2025_11_25:
            return float("inf")
        jitter = random.uniform(0.8, 1.0)  # noqa: S311 - spreads reconnects, hides nothing
        return time.monotonic() + self._settings.stream_max_seconds * jitter


async def _best_effort(note: Awaitable[None]) -> None:
    """Store the state of a stream. A failure is only logged, because it merely makes messages repeat."""
    try:
        await note
    except StreamsError as error:
        log.info("The state of an event stream could not be stored: %s", error)
