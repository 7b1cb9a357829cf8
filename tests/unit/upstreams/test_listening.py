"""The standing stream of a server: changes that it reports outside of calls (INT-66)."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.catalogue.snapshots.snapshot import KINDS, Catalogue
from mcp_app.protocol.client.answers import Notice
from mcp_app.protocol.versions import is_modern
from mcp_app.sessions.resource_updates import publish_update
from mcp_app.upstreams.listening import Listener
from tests.unit.catalogue.entries import resource_entry, tool_entry
from tests.unit.upstreams.conftest import Upstream

NOTES = "notes://all"


def all_notes() -> str:
    """List the notes."""
    return "one, two"


@pytest.fixture
def notices() -> asyncio.Queue[Notice]:
    return asyncio.Queue()


def offer(revision: int, upstream: Upstream) -> None:
    resources = [resource_entry(all_notes, NOTES), resource_entry(all_notes, "notes://more", 2)]
    catalogue = Catalogue(
        revision=revision,
        revisions=dict.fromkeys(KINDS, revision),
        tools=[tool_entry(upstream.counter, 1)],
        resources=resources,
    )
    current_snapshot.replace(catalogue)


async def opened(upstream: Upstream) -> None:
    """Wait until the stream of the server is open."""
    async with asyncio.timeout(10):
        while not upstream.server.endpoint.connections.open:
            await asyncio.sleep(0.01)


async def stopped(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


@pytest.mark.requirement("INT-66")
async def test_changes_outside_of_calls_are_reported(
    upstream: Upstream, notices: asyncio.Queue[Notice]
) -> None:
    offer(5, upstream)
    listener = Listener(upstream.settings(), notices.put)
    task = asyncio.create_task(listener.run([NOTES]))
    await opened(upstream)
    for uri in ("notes://more", NOTES):
        await publish_update(upstream.server.process.streams, uri)
    offer(6, upstream)
    upstream.server.endpoint.connections.announce_catalogue()
    found = set[str]()
    async with asyncio.timeout(10):
        while not found.issuperset((NOTES, "notifications/tools/list_changed")):
            notice = await notices.get()
            found.add(notice.params.get("uri", notice.method))
    assert "notes://more" not in found, "the listener did not subscribe to it"
    await stopped(task)
    await listener.end()


async def test_subscriptions_follow_the_wanted_resources(
    upstream: Upstream, notices: asyncio.Queue[Notice], version: str
) -> None:
    if is_modern(version):
        pytest.skip("The filter of each request has all URIs.")
    offer(5, upstream)
    listener = Listener(upstream.settings(), notices.put)
    for number, uris in enumerate((["notes://more", "notes://gone"], [NOTES]), 1):
        task = asyncio.create_task(listener.run(uris))
        async with asyncio.timeout(10):
            while [method for method, _ in upstream.requests].count("GET") < number:
                await asyncio.sleep(0.01)
        await stopped(task)
    (session,) = {each.decode() for each in upstream.session_ids}
    store = upstream.server.process.streams.sessions
    assert await store.subscribed(session, [NOTES, "notes://more"]) == [NOTES]
    await listener.end()
    assert await store.subscribers(NOTES) == []
