"""Notifies subscribers of a changed resource (RES-08, RES-11, SUB-06); callable from any process."""

from __future__ import annotations

import asyncio
import logging

from mcp_app import conf
from mcp_app.protocol.messages import jsonrpc
from mcp_app.sessions.session import STANDALONE
from mcp_app.streams.base import StreamFinished, StreamsUnavailable
from mcp_app.streams.gateway import Streams

TOGETHER = 200
# The broadcast that subscriptions of 2026-07-28 hear of it by, in the process that holds their connection.
TOPIC = "resource"

log = logging.getLogger("mcp.resources")


def notify_resource_updated(uri: str) -> None:
    """Send ``notifications/resources/updated`` to every session and subscription for ``uri``.

    For synchronous code: views, signals, Celery tasks. A session that is not connected gets it at its next
    connection. Without Redis the notice is lost, and logged.
    """
    if not (redis_url := conf.get().redis_url):
        # A signal calls this in every save: a project without Redis must be able to save.
        log.warning("The update of %.200r was not announced: there is no Redis (MCP['REDIS_URL'])", uri)
        return
    asyncio.run(_notify(redis_url, uri))


async def anotify_resource_updated(uri: str) -> None:
    """As ``notify_resource_updated``, for async code."""
    await asyncio.to_thread(notify_resource_updated, uri)


async def _notify(redis_url: str, uri: str) -> None:
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
