"""Resource update notifications reach each live subscriber once."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import orjson
import pytest
from django.db import transaction

from mcp_app.sessions import resource_updates
from mcp_app.sessions.open_sessions import Sessions
from mcp_app.sessions.resource_updates import (
    anotify_resource_updated,
    leave,
    notify_resource_updated,
    publish_update,
    serve_here,
)
from mcp_app.sessions.session import STANDALONE
from mcp_app.streams.gateway import Streams
from tests.unit.sessions.conftest import opening

URI = "notes://today"


async def told(streams: Streams, session_id: str) -> list[dict[str, object]]:
    epoch, _ = await streams.log.open(session_id, STANDALONE)
    page = await streams.log.read(session_id, STANDALONE, epoch, 0)
    return [orjson.loads(event.data) for event in page.events]


@pytest.mark.requirement("RES-08", "RES-11")
async def test_each_subscriber_is_notified_once(
    sessions: Sessions, streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource_updates, "TOGETHER", 2)
    subscribed = [await sessions.create(opening()) for _ in range(5)]
    other = await sessions.create(opening())
    for session in subscribed:
        await streams.sessions.add_subscription(session.id, URI, 10)
    await streams.sessions.add_subscription(other.id, "notes://other", 10)
    assert await publish_update(streams, URI) == 5
    notice = {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": URI}}
    assert [await told(streams, session.id) for session in subscribed] == [[notice]] * 5
    assert await told(streams, other.id) == []


async def test_ended_and_unsubscribed_sessions_are_not_notified(sessions: Sessions, streams: Streams) -> None:
    ended, left, living = [await sessions.create(opening()) for _ in range(3)]
    for session in (ended, left, living):
        await streams.sessions.add_subscription(session.id, URI, 10)
    await sessions.end(ended.id, "test")
    await streams.sessions.remove_subscription(left.id, URI)
    assert await publish_update(streams, URI) == 1
    assert len(await told(streams, living.id)) == 1


async def test_update_without_subscribers_sends_no_notification(streams: Streams) -> None:
    assert await publish_update(streams, URI) == 0


async def test_update_without_redis_is_logged_as_lost(caplog: pytest.LogCaptureFixture) -> None:
    await anotify_resource_updated(URI)
    (record,) = [each for each in caplog.records if each.name == "mcp.resources"]
    assert URI in record.getMessage()
    assert "REDIS_URL" in record.getMessage()


async def test_update_without_redis_reaches_clients_of_this_process(
    sessions: Sessions, streams: Streams, caplog: pytest.LogCaptureFixture
) -> None:
    session = await sessions.create(opening())
    await streams.sessions.add_subscription(session.id, URI, 10)
    serve_here(streams)
    await anotify_resource_updated(URI)
    await asyncio.to_thread(notify_resource_updated, URI)
    assert len(await told(streams, session.id)) == 2
    leave(streams)
    await anotify_resource_updated(URI)
    assert len(await told(streams, session.id)) == 2
    assert "was not announced" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_update_is_published_after_outermost_commit(caplog: pytest.LogCaptureFixture) -> None:
    with transaction.atomic():
        with transaction.atomic():
            notify_resource_updated(URI)
        assert not caplog.records
    assert len(caplog.records) == 1
    with suppress(KeyError), transaction.atomic():
        notify_resource_updated(URI)
        raise KeyError
    assert len(caplog.records) == 1
