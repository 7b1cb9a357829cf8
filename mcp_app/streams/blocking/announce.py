"""Broadcasts to web processes from code without an event loop, such as admin pages and commands."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Any

import orjson
import redis

from mcp_app import conf
from mcp_app.protocol.principal_key import Bound, person_of, share_of
from mcp_app.streams.connections import scripts
from mcp_app.streams.connections.client import RedisAddress, sync_client
from mcp_app.streams.connections.keys import EVERYONE, KEPT, Channels, places_key, session_keys
from mcp_app.streams.stores.storage_quota import account, tombstones

log = logging.getLogger(__name__)


@lru_cache(maxsize=2)
def _client(url: str) -> tuple[redis.Redis, Channels]:
    return sync_client(url), Channels(RedisAddress.parse(url).database)


def announce(topic: str, payload: dict[str, Any]) -> None:
    """Broadcast to every process from any thread.

    If Redis is unreachable, log a warning and raise nothing. The caller has already committed its change,
    and the processes load the stored state again within seconds.
    """
    url = conf.get().redis_url
    if not url:
        return
    client, channels = _client(url)
    try:
        client.publish(channels.topic + topic, orjson.dumps(payload))
    except redis.RedisError as error:
        log.warning("A broadcast on %s was not sent, Redis is unavailable: %s", topic, type(error).__name__)


def end_session(session: str, reason: str) -> None:
    """End a session for all processes, from any thread. Log a warning if Redis is unreachable."""
    url = conf.get().redis_url
    if not url:
        return
    client, channels = _client(url)
    keys, seconds = session_keys(session), conf.get().tombstone_seconds
    try:
        found: Any = client.eval(
            scripts.END_SESSION.source,
            3,
            keys.session,
            keys.subscriptions,
            keys.members,
            keys.base,
            str(seconds),
            channels.wake + session,
            EVERYONE,
        )
        principal, streams = found[0].decode(), found[1]
        gone = [f"{session}/{stream.decode()}" for stream in streams]
        client.eval(scripts.KEPT.source, len(KEPT), *KEPT, *map(str, account(gone=gone)))
        if principal:
            ended = tombstones({person_of(principal): 1}, seconds)
            client.eval(scripts.KEPT.source, len(KEPT), *KEPT, *map(str, ended))
            client.zrem(places_key(share_of(Bound.SESSIONS, principal)), session)
    except redis.RedisError as error:
        log.warning("A session was not ended in Redis, which is unavailable: %s", type(error).__name__)
    announce("session", {"session": session, "what": "ended", "reason": reason})


def open_sessions(principal: str) -> list[str]:
    """Return the sessions of a principal in Redis. The database learns of a new session a moment later."""
    url = conf.get().redis_url
    if not url:
        return []
    client, _ = _client(url)
    try:
        found: Any = client.zrange(places_key(share_of(Bound.SESSIONS, principal)), 0, -1)
        sessions = [each.decode() for each in found]
        owners: Any = [client.hget(session_keys(session).session, "principal") for session in sessions]
    except redis.RedisError as error:
        log.warning("New sessions were not found, Redis is unavailable: %s", type(error).__name__)
        return []
    return [each for each, owner in zip(sessions, owners, strict=True) if owner == principal.encode()]
