"""Owns reading an event stream without an event loop (admin pages); must not know what the events say."""

from __future__ import annotations

from typing import Any

import redis

from mcp_app.streams.base import Event, Position, StreamsUnavailable
from mcp_app.streams.connections.client import sync_client
from mcp_app.streams.connections.keys import stream_keys
from mcp_app.streams.stores.redis_log import event_of

MOST = 200
# Well below the time after which the client takes Redis for hanging.
MOST_SECONDS = 0.5


class StreamView:
    """Looks at streams from threads; nothing it does keeps a stream alive or wakes anybody."""

    __slots__ = ("_client",)

    def __init__(self, url: str) -> None:
        self._client = sync_client(url)

    def newest(self, session: str, stream: str) -> list[Event]:
        """The last events, oldest first; none for an unknown stream. Raises StreamsUnavailable."""
        return self._read(session, stream, None)

    def after(self, session: str, stream: str, position: Position) -> list[Event]:
        """The next events, at most MOST; the newest ones when the stream began again since ``position``."""
        events = self._read(session, stream, position)
        if events and events[0].epoch != position.epoch:
            return self.newest(session, stream)
        return events

    def wait(self, session: str, stream: str, position: Position | None, seconds: float) -> bool:
        """Whether there is an event after ``position`` (None: any) within ``seconds``, at most MOST_SECONDS.

        Blocks; raises StreamsUnavailable.
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
