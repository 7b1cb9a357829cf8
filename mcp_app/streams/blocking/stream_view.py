"""Access to event streams without an event loop, for admin pages."""

from __future__ import annotations

from typing import Any

import redis

from mcp_app.streams.base import Event, Position, StreamsUnavailable
from mcp_app.streams.connections.client import sync_client
from mcp_app.streams.connections.keys import stream_keys
from mcp_app.streams.stores.redis_log import event_of

MOST = 200
# Well below the socket timeout of the client.
MOST_SECONDS = 0.5


class StreamView:
    """A read-only view of streams for threads.

    It neither extends the lifetime of streams nor wakes readers.
    """

    __slots__ = ("_client",)

    def __init__(self, url: str) -> None:
        self._client = sync_client(url)

    def newest(self, session: str, stream: str) -> list[Event]:
        """Return the last events, oldest first, or none for an unknown stream. Raise StreamsUnavailable."""
        return self._read(session, stream, None)

    def after(self, session: str, stream: str, position: Position) -> list[Event]:
        """Return up to MOST events after ``position``, or the newest if the stream was created again."""
        events = self._read(session, stream, position)
        if events and events[0].epoch != position.epoch:
            return self.newest(session, stream)
        return events

    def wait(self, session: str, stream: str, position: Position | None, seconds: float) -> bool:
        """Block until an event follows ``position`` (None: any event). Return False after ``seconds``.

        The wait is limited to MOST_SECONDS. Raise StreamsUnavailable.
        """
        key = stream_keys(session, stream).stream
        start = f"{position.epoch}-{position.offset}" if position is not None else "0-0"
        try:
            block = max(1, round(min(seconds, MOST_SECONDS) * 1000))
            return bool(self._client.xread({key: start}, count=1, block=block))
        except redis.RedisError as error:
            raise StreamsUnavailable("Redis does not show the events of a call.") from error

    def _read(self, session: str, stream: str, position: Position | None) -> list[Event]:
        key = stream_keys(session, stream).stream
        try:
            if position is not None:
                start = f"({position.epoch}-{position.offset}"
                entries: Any = self._client.xrange(key, start, "+", count=MOST)
            else:
                entries = self._client.xrevrange(key, "+", "-", count=MOST)
        except redis.RedisError as error:
            raise StreamsUnavailable("Redis does not show the events of a call.") from error
        events = [event_of(number, fields[b"k"], fields[b"d"]) for number, fields in entries]
        return events if position is not None else events[::-1]
