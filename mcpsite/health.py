"""Answers /healthz (this process lives) and /readyz (what it needs is there) without Django's middleware."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from django.conf import settings
from django.core.cache import cache
from django.db import DEFAULT_DB_ALIAS, connections
from django.db import Error as DatabaseFault

from mcp_app.tasks import WORKER_ALIVE

CHECK_SECONDS = 2.0

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


async def healthz(scope: Any, receive: Any, send: Send) -> None:
    """200 while the event loop turns."""
    await _answer(send, 200, {"status": "ok"})


async def readyz(scope: Any, receive: Any, send: Send) -> None:
    """200 when database, Redis and a worker are there; else 503 naming what is missing."""
    checks = {"database": _database, "redis": _redis, "worker": _worker}
    present = await asyncio.gather(*(_holds(check) for check in checks.values()))
    missing = [name for name, there in zip(checks, present, strict=True) if not there]
    if missing:
        await _answer(send, 503, {"status": "unavailable", "missing": missing})
    else:
        await _answer(send, 200, {"status": "ok"})


async def _holds(check: Callable[[], bool]) -> bool:
    try:
        return await asyncio.wait_for(asyncio.to_thread(check), CHECK_SECONDS)
    except TimeoutError:
        return False


def _database() -> bool:
    connection = connections[DEFAULT_DB_ALIAS]
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseFault:
        return False
    finally:
        connection.close()
    return True


def _redis() -> bool:
    return not settings.REDIS_URL or _remembered("readyz", 1) is not None


def _worker() -> bool:
    return _remembered(WORKER_ALIVE) is not None


async def _answer(send: Send, status: int, body: dict[str, Any]) -> None:
    content = json.dumps(body).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(content)).encode()),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
