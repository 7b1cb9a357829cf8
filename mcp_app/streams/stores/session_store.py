"""Cached sessions, stored in Redis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from mcp_app.streams.base import BadName, Broadcast, SessionEnded, StreamLimits
from mcp_app.streams.connections import scripts
from mcp_app.streams.connections.batch import Batch, Run
from mcp_app.streams.connections.keys import (
    EVERYONE,
    Channels,
    digest,
    field_arguments,
    places_key,
    session_keys,
    subscribers_key,
)
from mcp_app.streams.stores.storage_quota import RedisStorageQuota

CHUNK = 500
# An internal field. It is set once another process uses the session and therefore needs its changes.
TOUCHED = "touched"
_ENDED = "The session was ended."


class RedisSessions:
    """An implementation of ``base.SessionStore`` on Redis.

    The fields of an ended session become a tombstone.
    """

    def __init__(
        self, batch: Batch, channels: Channels, quota: RedisStorageQuota, limits: StreamLimits
    ) -> None:
        self._batch, self._channels, self._quota, self._limits = batch, channels, quota, limits

    async def create(self, session: str, fields: dict[str, str], ttl: int) -> None:
        keys = [session_keys(session).session]
        if not await self._batch.script(scripts.CREATE_SESSION, keys, ttl, *field_arguments(fields)):
            raise SessionEnded(_ENDED)

    async def open(self, session: str, fields: dict[str, str], ttl: int, places: str, limit: int) -> bool:
        key, place = session_keys(session).session, places_key(places)
        # Two scripts, because the keys have different hash tags. It does no harm if the connection is lost
        # in between.
        taken, stored = await self._batch.scripts(
            (scripts.ACQUIRE, [place], (session, limit, ttl * 1000)),
            (scripts.CREATE_SESSION, [key], (ttl, *field_arguments(fields))),
        )
        if taken and stored:
            return True
        await self._batch.many([("ZREM", place, session), *([("DEL", key)] if stored else [])])
        if taken:
            raise SessionEnded(_ENDED)
        return False

    async def load(self, session: str) -> dict[str, str] | None:
        """Return the fields, or None for an unknown session or an invalid id. Raise SessionEnded."""
        try:
            key = session_keys(session).session
        except BadName:
            return None
        flat = await self._batch.command("HGETALL", key)
        fields = {flat[i].decode(): flat[i + 1].decode() for i in range(0, len(flat), 2)}
        if "ended" in fields:
            raise SessionEnded(_ENDED)
        fields.pop(TOUCHED, None)
        return fields or None

    async def update(self, session: str, fields: dict[str, str], broadcast: Broadcast | None = None) -> bool:
        keys, announced = [session_keys(session).session], self._publish_arguments(broadcast)
        done = await self._batch.script(
            scripts.UPDATE_SESSION, keys, "", *announced, *field_arguments(fields)
        )
        if done < 0:
            raise SessionEnded(_ENDED)
        return bool(done)

    async def touch(self, session: str, ttl: int) -> bool:
        key = session_keys(session).session
        return bool(await self._batch.script(scripts.UPDATE_SESSION, [key], ttl, "", "", TOUCHED, 1) == 1)

    async def end(self, session: str, tombstone_ttl: int, broadcast: Broadcast | None = None) -> str:
        (ended,) = await self._batch.scripts(self._ending(session, tombstone_ttl, broadcast))
        return self._ended(session, ended, tombstone_ttl)

    async def end_unless(
        self, session: str, field: str, tombstone_ttl: int, places: str, broadcast: Broadcast
    ) -> bool:
        ending = self._ending(session, tombstone_ttl, broadcast, field)
        ended, _ = await self._batch.scripts(ending, then=[("ZREM", places_key(places), session)])
        if ended == -1:
            raise SessionEnded(_ENDED)
        if ended:
            self._ended(session, ended, tombstone_ttl)
        return bool(ended)

    def _ending(self, session: str, ttl: int, broadcast: Broadcast | None, unless: str = "") -> Run:
        keys = session_keys(session)
        wake = self._channels.wake + session
        return (
            scripts.END_SESSION,
            [keys.session, keys.subscriptions, keys.members],
            (keys.base, ttl, wake, EVERYONE, *self._publish_arguments(broadcast), unless),
        )

    def _ended(self, session: str, reply: list[Any], ttl: int) -> str:
        """Record the end of a session in its owner's account. Return the principal."""
        found, streams = reply
        if streams:
            self._quota.forget(session, [stream.decode() for stream in streams])
        principal: str = found.decode()
        self._quota.record_tombstone(principal, ttl)
        return principal

    def _publish_arguments(self, broadcast: Broadcast | None) -> tuple[str, str | bytes]:
        """Return the script arguments that publish a broadcast."""
        if broadcast is None:
            return "", ""
        topic, payload = broadcast
        return self._channels.topic + topic, orjson.dumps(payload)

    async def add_subscription(self, session: str, uri: str, limit: int) -> bool:
        keys, ttl = session_keys(session), self._limits.session_ttl
        added = await self._batch.script(
            scripts.SUBSCRIBE, [keys.session, keys.subscriptions], digest(uri), limit, ttl
        )
        if added:
            # A separate step, because the hash tag differs. ``subscribers`` tolerates a crash between the
            # two steps.
            key = subscribers_key(uri)
            await self._batch.many([("SADD", key, session), ("EXPIRE", key, ttl)])
        return bool(added)

    async def remove_subscription(self, session: str, uri: str) -> None:
        await self._batch.many(
            [
                ("SREM", session_keys(session).subscriptions, digest(uri)),
                ("SREM", subscribers_key(uri), session),
            ]
        )

    async def subscribed(self, session: str, uris: Sequence[str]) -> list[str]:
        key = session_keys(session).subscriptions
        found: list[str] = []
        for start in range(0, len(uris), CHUNK):
            some = uris[start : start + CHUNK]
            marks = await self._batch.command("SMISMEMBER", key, *map(digest, some))
            found += [uri for uri, mark in zip(some, marks, strict=True) if mark]
        return found

    async def subscribers(self, uri: str) -> list[str]:
        """Return the active subscribers, and remove ended sessions from the set."""
        key = subscribers_key(uri)
        sessions = sorted(member.decode() for member in await self._batch.command("SMEMBERS", key))
        living: list[str] = []
        for start in range(0, len(sessions), CHUNK):
            living += await self._living(key, digest(uri), sessions[start : start + CHUNK])
        return living

    async def _living(self, key: str, resource: str, sessions: list[str]) -> list[str]:
        names = [session_keys(session) for session in sessions]
        replies = await self._batch.many(
            [
                command
                for each in names
                for command in (("EXISTS", each.session), ("SISMEMBER", each.subscriptions, resource))
            ]
        )
        alive = [bool(replies[2 * i] and replies[2 * i + 1]) for i in range(len(sessions))]
        dead = [session for session, lives in zip(sessions, alive, strict=True) if not lives]
        if dead:
            await self._batch.command("SREM", key, *dead)
        return [session for session, lives in zip(sessions, alive, strict=True) if lives]
