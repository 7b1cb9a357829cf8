"""Notifications about changed resources (RES-08, RES-11, SUB-06). They can be sent from any process."""

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
# Topic of the broadcast that informs subscriptions of revision 2026-07-28 in other processes.
TOPIC = "resource"

log = logging.getLogger("mcp.resources")
# Event loops and in-memory streams of this process, used if there is no Redis. They belong to a server or to
# the clients of a test.
_here: list[tuple[asyncio.AbstractEventLoop, Streams]] = []
_under_way: set[asyncio.Task[None]] = set()


def notify_resource_updated(uri: str) -> None:
    """Send ``notifications/resources/updated`` to every session and subscription for ``uri``.

    For synchronous code such as views, signals and Celery tasks. In a transaction, the notification is sent
    after the commit. A rollback discards it. A session that is not connected receives the notification when
    it connects again. Without Redis, only clients of this process are notified. If it has none, the
    notification is discarded and a warning is logged.
    """
    for connection in connections.all(initialized_only=True):
        if connection.in_atomic_block:
            # Subscribers read the resource again, so the change must be visible before they are notified.
            # After the commit, this function runs again, because a transaction of another database may still
            # be open.
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
    """Send the same notification as ``notify_resource_updated``, from async code."""
    await _notify(uri)


def serve_here(streams: Streams) -> None:
    """Deliver notifications sent in this process to the clients of these in-memory streams."""
    _here.append((asyncio.get_running_loop(), streams))


def leave(streams: Streams) -> None:
    """Stop the delivery that ``serve_here`` started, if it was started."""
    _here[:] = [each for each in _here if each[1] is not streams]


async def _notify(uri: str) -> None:
    if redis_url := conf.get().redis_url:
        await _notify_by_redis(redis_url, uri)
    elif here := list(_here):
        await _notify_here(here, uri)
    else:
        # Do not raise an error: signals call this function at every save, and a project without Redis must be
        # able to save.
        log.warning("The update of %.200r was not announced: no Redis is configured (MCP['REDIS_URL'])", uri)


async def _notify_here(here: list[tuple[asyncio.AbstractEventLoop, Streams]], uri: str) -> None:
    try:
        # The timeout is needed because the event loop may be blocked, or may belong to the process from which
        # this one was forked.
        async with asyncio.timeout(PATIENCE_SECONDS):
            for loop, streams in here:
                publishing = asyncio.run_coroutine_threadsafe(publish_update(streams, uri), loop)
                await asyncio.wrap_future(publishing)
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
    """Append the notification to the standalone stream of each subscribed session.

    Returns the number of sessions.
    """
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
        return  # The session has ended.
