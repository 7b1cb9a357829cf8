"""The registry of the projects that use one Redis database.

Only one project may use a database, because the names of keys do not contain the project.
"""

from __future__ import annotations

import time

import redis
from django.conf import settings
from django.utils.crypto import salted_hmac

from mcp_app.streams.base import StreamsUnavailable
from mcp_app.streams.connections.client import sync_client
from mcp_app.streams.connections.keys import PROJECTS

# Projects that no longer use this Redis are removed after this time.
REMEMBERED_SECONDS = 86_400
MOST = 100


def register(url: str) -> int:
    """Register this project in the Redis at ``url``. Return how many other projects used it within a day.

    Raise StreamsUnavailable.
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
    """Return how many other projects used the Redis at ``url`` within a day.

    Raise StreamsUnavailable.
    """
    try:
        with sync_client(url) as client:
            found = client.zrangebyscore(PROJECTS, time.time() - REMEMBERED_SECONDS, "+inf")
    except redis.RedisError as error:
        raise StreamsUnavailable(f"Redis does not answer: {error}") from error
    return len({name.decode() for name in found} - set(_names()))


def _names() -> list[str]:
    """Return the names of this project, derived from its current secret key and its earlier keys."""
    secrets = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    return [salted_hmac("mcp_app.project", "", secret=secret).hexdigest()[:16] for secret in secrets]
