"""Announcements from code without an event loop, and the settings that limit the streams."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pytest_django.fixtures import Settings as DjangoSettings

from mcp_app import conf
from mcp_app.streams import SessionEnded, Streams, StreamUnknown
from mcp_app.streams.blocking.announce import announce, end_session, open_sessions
from mcp_app.streams.stores.message_queue import SyncMessageQueue
from tests.streams_contract.waiting import until


@pytest.fixture
def configured(clean_redis: str, settings: DjangoSettings) -> str:
    """Set ``REDIS_URL`` to the Redis of the tests."""
    settings.MCP = {**settings.MCP, "REDIS_URL": clean_redis}
    return clean_redis


async def test_thread_announces_to_every_process(configured: str, streams: Streams) -> None:
    heard: list[Any] = []
    streams.hub.subscribe("credentials", heard.append)

    async def told() -> bool:
        await asyncio.to_thread(announce, "credentials", {"api_key": 1})
        return {"api_key": 1} in heard

    await until(told)


@pytest.mark.parametrize("principal", ["user:1", "user:1/key:2"])
async def test_session_ended_by_a_thread_is_ended_everywhere(
    configured: str, streams: Streams, principal: str
) -> None:
    heard: list[Any] = []
    streams.hub.subscribe("session", heard.append)
    await streams.sessions.create("s", {"principal": principal}, 60)
    assert await streams.windows.acquire("sessions/user:1", "s", 1, 60)
    epoch, _ = await streams.log.open("s", "get")
    reader = streams.reader("s", "get", epoch, 0)
    assert await reader.next(0.05) == []
    waiting = asyncio.create_task(reader.next(60))
    await asyncio.to_thread(end_session, "s", "by an operator")
    async with asyncio.timeout(1):
        with pytest.raises(StreamUnknown):
            await waiting
    with pytest.raises(SessionEnded):
        await streams.sessions.load("s")
    assert await streams.windows.held("sessions/user:1") == 0

    async def told() -> bool:
        return {"session": "s", "what": "ended", "reason": "by an operator"} in heard

    await until(told)
    reader.close()


async def test_open_sessions_of_a_principal_are_found_before_they_have_rows(
    configured: str, streams: Streams
) -> None:
    for session, principal in (("a", "user:1/key:2"), ("b", "user:1/key:3"), ("c", "user:2/key:2")):
        place = principal.partition("/")[0]
        fields = {"principal": principal}
        assert await streams.sessions.open(session, fields, 60, f"sessions/{place}", 9)
    assert await asyncio.to_thread(open_sessions, "user:1/key:2") == ["a"]
    await asyncio.to_thread(end_session, "a", "by an operator")
    assert await asyncio.to_thread(open_sessions, "user:1/key:2") == []


@pytest.mark.parametrize("url", ["", "redis://127.0.0.1:1/0"])
def test_announce_and_end_session_ignore_a_missing_redis(settings: DjangoSettings, url: str) -> None:
    settings.MCP = {**settings.MCP, "REDIS_URL": url}
    announce("credentials", {"api_key": 1})
    end_session("s", "by an operator")
    assert open_sessions("user:1/key:2") == []
    assert conf.get().redis_url == url


def test_sync_queue_uses_the_settings(configured: str) -> None:
    queue = SyncMessageQueue.connect()
    assert queue.depth() == 0
    assert queue.read("0-0", 5) == []
    queue.close()


def test_stream_limits_come_from_the_settings() -> None:
    given = conf.load(
        {
            "MAX_STREAM_EVENTS": 5,
            "MAX_STREAM_BYTES": 6,
            "STREAM_TTL_SECONDS": 7,
            "SESSION_MAX_SECONDS": 8,
            "SLOW_POLL_SECONDS": 9.0,
        }
    )
    limits = Streams.in_memory(given).limits
    found = (limits.events, limits.event_bytes, limits.ttl, limits.session_ttl, limits.slow_poll)
    assert found == (5, 6, 7, 8, 9.0)
