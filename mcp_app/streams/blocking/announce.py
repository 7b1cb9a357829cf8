"""Broadcasts to web processes from code without an event loop, such as admin pages and commands."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Any

import orjson
import redis

from mcp_app import conf
from mcp_app.protocol.principal_key import person_of
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
            client.zrem(places_key(f"sessions/{principal}"), session)
    except redis.RedisError as error:
        log.warning("A session was not ended in Redis, which is unavailable: %s", type(error).__name__)
    announce("session", {"session": session, "what": "ended", "reason": reason})
