"""Bare ASGI applications: each does the work of one kind of tool, then responds like the floor.

The pool has as many threads as ours. Each of its threads has a persistent database connection; so does
the single thread to which Django passes awaited queries.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import django

from benchmarks import floor
from benchmarks.costs import large_body, large_structure

django.setup()

from django.contrib.contenttypes.models import ContentType  # noqa: E402 - a model needs Django set up

POOL = ThreadPoolExecutor(8)
LARGE = large_structure()


def _plain() -> str:
    return "hello"


def _query() -> str:
    return ContentType.objects.values_list("model", flat=True).get(pk=1)


def _in_pool(function: Callable[[], str]) -> Callable[[], Awaitable[Any]]:
    return lambda: asyncio.get_running_loop().run_in_executor(POOL, function)


async def _awaited_query() -> None:
    await ContentType.objects.filter(pk=1).values_list("model", flat=True).afirst()


def _after(work: Callable[[], Awaitable[Any]]) -> Callable[..., Awaitable[None]]:
    async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await work()
        await floor.application(scope, receive, send)

    return application


pool = _after(_in_pool(_plain))
pool_query = _after(_in_pool(_query))
awaited_query = _after(_awaited_query)


async def large(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Encode a structured result of 100 KiB and send it."""
    while (await receive()).get("more_body", False):
        pass
    body = large_body(LARGE)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
