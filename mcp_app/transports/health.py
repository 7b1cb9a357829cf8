"""/healthz (the process is alive) and /readyz (its dependencies respond). No middleware runs for them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections
from django.db import Error as DatabaseFault

from mcp_app import conf
from mcp_app.streams.base import StreamsUnavailable
from mcp_app.streams.blocking.presence import Presence
from mcp_app.transports.application import mcp

CHECK_SECONDS = 2.0

# Checks have their own threads, so that a blocked database does not occupy the threads of other code.
_threads = ThreadPoolExecutor(2, thread_name_prefix="readyz")
_running: list[asyncio.Future[list[str]]] = []

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


async def healthz(scope: Any, receive: Any, send: Send) -> None:
    """Answer 200 as long as the event loop runs. ``lifespan`` is false without an ASGI lifespan startup."""
    await _answer(send, 200, {"status": "ok"} if mcp.announced else {"status": "ok", "lifespan": False})


async def readyz(scope: Any, receive: Any, send: Send) -> None:
    """Answer 200 if all configured services respond, else 503 with the names of the missing services."""
    if missing := await _missing():
        await _answer(send, 503, {"status": "unavailable", "missing": missing})
    else:
        await _answer(send, 200, {"status": "ok"})


async def not_there(scope: Any, receive: Any, send: Send) -> None:
    """Answer 404 in JSON, for paths that do not exist but that programs may legitimately request."""
    await _answer(send, 404, {"error": "not_found"})


async def _missing() -> list[str]:
    """Return the missing services. Concurrent requests share one check."""
    if not _running or _running[0].done():
        _running[:] = [asyncio.ensure_future(_check())]
    return await asyncio.shield(_running[0])


async def _check() -> list[str]:
    database, redis, connected = await asyncio.gather(
        _within(_missing_database, "database"), _within(_missing_of_redis, "redis"), mcp.healthy()
    )
    # Redis may respond before this process has reconnected to it.
    own = [] if connected or "redis" in redis else ["redis"]
    return [*database, *own, *redis]


async def _within(check: Callable[[], list[str]], name: str) -> list[str]:
    """Return the services that ``check`` finds missing, or ``name`` after a timeout."""
    loop = asyncio.get_running_loop()
    try:
        return await asyncio.wait_for(loop.run_in_executor(_threads, check), CHECK_SECONDS)
    except TimeoutError:
        return [name]


def _missing_database() -> list[str]:
    connection = connections[DEFAULT_DB_ALIAS]
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseFault:
        return ["database"]
    finally:
        connection.close()
    return []


def _missing_of_redis() -> list[str]:
    """Return the missing services among Redis and workers, or [] if no Redis is configured."""
    url = conf.get().redis_url
    if not url:
        return []
    try:
        return [] if _presence(url).seen() else ["worker"]
    except StreamsUnavailable:
        return ["redis", "worker"]


@lru_cache(maxsize=1)
def _presence(url: str) -> Presence:
    return Presence(url)


async def _answer(send: Send, status: int, body: dict[str, Any]) -> None:
    content = json.dumps(body).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(content)).encode()),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
