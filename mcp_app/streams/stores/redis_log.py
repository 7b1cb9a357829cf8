"""The event log on Redis Streams."""

from __future__ import annotations

import os
from contextlib import nullcontext, suppress
from typing import Any

from mcp_app.streams.base import (
    ANSWER,
    LARGE_BYTES,
    MESSAGE,
    PAGE_EVENTS,
    Event,
    Page,
    Position,
    StreamFinished,
    StreamLimits,
    StreamUnknown,
)
from mcp_app.streams.connections import scripts
from mcp_app.streams.connections.batch import Argument, Batch
from mcp_app.streams.connections.keys import Channels, field_arguments, stream_keys
from mcp_app.streams.connections.scripts import Script
from mcp_app.streams.stores.storage_quota import RedisStorageQuota

_NO_NEED = nullcontext()
_SHORT = {MESSAGE: "m", "close": "c", "follow": "w", ANSWER: "a"}
_LONG = {b"m": "message", b"a": "message", b"c": "close", b"w": "follow", b"f": "final"}
_REASONS = {
    b"final": "The stream is final.",
    b"ended": "The session ended.",
    b"stale": "A newer attempt writes to this stream.",
}


class RedisLog:
    """An implementation of ``base.EventLog`` on Redis.

    The id of an entry is ``<epoch>-<offset>``, not a time.
    """

    def __init__(
        self, batch: Batch, channels: Channels, quota: RedisStorageQuota, limits: StreamLimits
    ) -> None:
        self._batch = batch
        self._quota = quota
        self._channels = channels
        self.limits = limits

    async def append(
        self, session: str, stream: str, data: bytes, *, kind: str = MESSAGE, fence: int = 0, owner: str = ""
    ) -> Position:
        if kind not in _SHORT:
            raise ValueError("Only finish() may add the final event.")
        bounds = self.limits.events, self.limits.event_bytes
        written = _SHORT[kind], data, fence, *bounds
        return await self._run(scripts.APPEND, session, stream, owner, *written, size=len(data))

    async def finish(
        self, session: str, stream: str, data: bytes, *, fence: int | None = None, owner: str = ""
    ) -> Position | None:
        fenced = "" if fence is None else fence
        bounds = self.limits.events, self.limits.event_bytes
        try:
            written = data, fenced, *bounds
            return await self._run(scripts.FINISH, session, stream, owner, *written, size=len(data))
        except StreamFinished:
            return None

    async def open(
        self, session: str, stream: str, *, owner: str = "", session_fields: dict[str, str] | None = None
    ) -> Position:
        fields = field_arguments(session_fields) if session_fields else ()
        return await self._run(scripts.OPEN, session, stream, owner, *fields)

    async def head(self, session: str, stream: str) -> Position | None:
        return (await self.heads([(session, stream)]))[0]

    async def heads(self, streams: list[tuple[str, str]]) -> list[Position | None]:
        """Return the newest position of each (session, stream), or None if absent, in one round trip."""
        replies = await self._batch.many(
            [("HMGET", stream_keys(session, name).meta, "epoch", "last") for session, name in streams]
        )
        return [Position(int(epoch), int(last)) if epoch else None for epoch, last in replies]

    async def read(self, session: str, stream: str, epoch: int, after: int, count: int = PAGE_EVENTS) -> Page:
        """Return a page of events, built from two replies that are not atomic.

        An event that is appended between the two commands appears only in the metadata, and the next read
        returns it. Therefore a page that contains events is finished only if its last event is final.
        """
        keys = stream_keys(session, stream)
        entries, facts = await self._batch.many(
            [
                ("XRANGE", keys.stream, f"({epoch}-{after}", str(epoch), "COUNT", count),
                ("HMGET", keys.meta, "epoch", "last", "final"),
            ]
        )
        if facts[0] is None or int(facts[0]) != epoch:
            raise StreamUnknown("There is no such stream, or not any more.")
        return _page(entries, after, last=int(facts[1]), final=facts[2] == b"1")

    async def keep(self, session: str, stream: str, *, fence: int = 0) -> None:
        with suppress(StreamFinished):
            await self._run(scripts.KEEP, session, stream, "", fence)

    async def drop(self, session: str, stream: str) -> None:
        keys = stream_keys(session, stream)
        await self._batch.many(
            [
                ("UNLINK", keys.stream, keys.meta),
                ("ZREM", keys.members, f"stream:{stream}"),
                ("PUBLISH", self._channels.wake + session, stream),
            ]
        )
        self._quota.forget(session, [stream])

    async def _run(
        self, script: Script, session: str, stream: str, owner: str, *arguments: Argument, size: int = 0
    ) -> Position:
        """Run a script that writes to a stream, and record the stream's new size in the owner's account.

        A write with a large ``size`` must first reserve quota. Return the resulting position. Raise
        StreamFinished if the write is refused.
        """
        limits = self.limits
        async with self._quota.room(owner, size) if owner and size > LARGE_BYTES else _NO_NEED:
            reply = await self._batch.script(
                script,
                stream_keys(session, stream),
                int.from_bytes(os.urandom(6)) | 1,  # the epoch: 48 bits, never 0
                stream,
                limits.ttl,
                max(limits.session_ttl, limits.ttl),
                self._channels.wake + session,
                owner,
                *arguments,
            )
            if not isinstance(reply, list):
                raise StreamFinished(_REASONS.get(reply, "The stream takes no more events."))
            if len(reply) > 2:
                self._quota.record(reply[2], session, stream, reply[3], reply[1])
            return Position(int(reply[0]), int(reply[1]))


def event_of(entry_id: bytes, kind: bytes, data: bytes) -> Event:
    """Convert a stored entry to an event."""
    epoch, offset = entry_id.split(b"-")
    return Event(int(epoch), int(offset), _LONG[kind], data)


def _page(entries: list[Any], after: int, *, last: int, final: bool) -> Page:
    events = [event_of(entry_id, fields[1], fields[3]) for entry_id, fields in entries]
    if events:
        return Page(events, finished=events[-1].kind == "final", gap=events[-1].offset > after + len(events))
    return Page(events, finished=final and after >= last, gap=False)
