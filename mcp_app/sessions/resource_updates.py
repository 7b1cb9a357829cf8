"""Notifies subscribers of a changed resource (RES-08, RES-11, SUB-06); callable from any process."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from django.db import connections

from mcp_app import conf
from mcp_app.protocol.messages import jsonrpc
from mcp_app.sessions.session import STANDALONE
from mcp_app.streams.base import StreamFinished, StreamsUnavailable
from mcp_app.streams.gateway import Streams

TOGETHER = 200
PATIENCE_SECONDS = 5.0
# The broadcast that subscriptions of 2026-07-28 hear of it by, in the process that holds their connection.
TOPIC = "resource"

log = logging.getLogger("mcp.resources")
# The event loops and streams of lone processes here: of one server, or of the clients of a test.
_here: list[tuple[asyncio.AbstractEventLoop, Streams]] = []
_under_way: set[asyncio.Task[None]] = set()


def notify_resource_updated(uri: str) -> None:
    """Send ``notifications/resources/updated`` to every session and subscription for ``uri``.

    For synchronous code: views, signals, Celery tasks. Within a transaction it is sent when that is
    committed, and not if it is rolled back. A session that is not connected gets it at its next connection.
    Without Redis it reaches the clients of this process only; if there are none, it is lost, and logged.
    """
    for connection in connections.all(initialized_only=True):
        if connection.in_atomic_block:
            # Whoever hears of it reads the resource again: not before the change can be read. Asked again
            # then, because a transaction of another database may still be open.
            connection.on_commit(partial(notify_resource_updated, uri), robust=True)
            return
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(_notify(uri))
    else:
        task = loop.create_task(_notify(uri))
        _under_way.add(task)
        task.add_done_callback(_under_way.discard)


async def anotify_resource_updated(uri: str) -> None:
    """As ``notify_resource_updated``, for async code."""
    await _notify(uri)


def serve_here(streams: Streams) -> None:
    """Have notices of this process reach the clients of these streams, which are in its memory."""
    _here.append((asyncio.get_running_loop(), streams))


def leave(streams: Streams) -> None:
    """Undo ``serve_here``; harmless without it."""
    _here[:] = [each for each in _here if each[1] is not streams]


async def _notify(uri: str) -> None:
    if redis_url := conf.get().redis_url:
        await _notify_by_redis(redis_url, uri)
    elif here := list(_here):
        await _notify_here(here, uri)
    else:
        # A signal calls this in every save: a project without Redis must be able to save.
        log.warning("The update of %.200r was not announced: there is no Redis (MCP['REDIS_URL'])", uri)


async def _notify_here(here: list[tuple[asyncio.AbstractEventLoop, Streams]], uri: str) -> None:
    try:
        # An event loop may stand still, or be that of a process from which this one was forked.
        async with asyncio.timeout(PATIENCE_SECONDS):
            for loop, streams in here:
                told = asyncio.run_coroutine_threadsafe(publish_update(streams, uri), loop)
                await asyncio.wrap_future(told)
    except (RuntimeError, TimeoutError) as error:
        log.warning("The update of %.200r was not announced: %r", uri, error)


async def _notify_by_redis(redis_url: str, uri: str) -> None:
    streams = Streams.connect(redis_url)
    await streams.start()
    try:
        await publish_update(streams, uri)
    except StreamsUnavailable as error:
        log.warning("The update of %.200r was not announced: %s", uri, error)
    finally:
        await streams.close()


async def publish_update(streams: Streams, uri: str) -> int:
    """Append the notice to each session's standalone stream, exactly once each; returns how many sessions."""
    await streams.hub.publish(TOPIC, {"uri": uri})
    sessions = await streams.sessions.subscribers(uri)
    notice = jsonrpc.encode_notification("notifications/resources/updated", {"uri": uri})
    for start in range(0, len(sessions), TOGETHER):
        await asyncio.gather(
            *(_append(streams, session, notice) for session in sessions[start : start + TOGETHER])
        )
    return len(sessions)


async def _append(streams: Streams, session: str, notice: bytes) -> None:
    try:
        await streams.log.append(session, STANDALONE, notice)
    except StreamFinished:
        return  # The session ended after we looked.
