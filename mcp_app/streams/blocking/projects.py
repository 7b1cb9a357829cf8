"""Notes which projects use one database of Redis. There must be one: no key names its project."""

from __future__ import annotations

import time

import redis
from django.conf import settings
from django.utils.crypto import salted_hmac

from mcp_app.streams.base import StreamsUnavailable
from mcp_app.streams.connections.client import sync_client
from mcp_app.streams.connections.keys import PROJECTS

# A project that moved to another Redis is forgotten after so long.
REMEMBERED_SECONDS = 86_400
MOST = 100


def note(url: str) -> int:
    """Note that this project uses the Redis at ``url``; how many others did within a day.

    Raises StreamsUnavailable.
    """
    now = time.time()
    try:
        with sync_client(url) as client, client.pipeline() as batch:
            batch.zadd(PROJECTS, {_names()[0]: now})
            batch.zremrangebyscore(PROJECTS, "-inf", now - REMEMBERED_SECONDS)
            batch.zremrangebyrank(PROJECTS, 0, -MOST - 1)
            batch.expire(PROJECTS, REMEMBERED_SECONDS)
            batch.execute()
    except redis.RedisError as error:
        raise StreamsUnavailable(f"Redis does not answer: {error}") from error
    return others(url)


def others(url: str) -> int:
    """How many other projects used the Redis at ``url`` within a day. Raises StreamsUnavailable."""
    try:
        with sync_client(url) as client:
            found = client.zrangebyscore(PROJECTS, time.time() - REMEMBERED_SECONDS, "+inf")
    except redis.RedisError as error:
        raise StreamsUnavailable(f"Redis does not answer: {error}") from error
    return len({name.decode() for name in found} - set(_names()))


def _names() -> list[str]:
    """This project's names, the present one first: its processes sign with one key, and no other's do."""
    secrets = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    return [salted_hmac("mcp_app.project", "", secret=secret).hexdigest()[:16] for secret in secrets]
