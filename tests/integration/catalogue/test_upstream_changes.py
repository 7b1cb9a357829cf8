"""Changes that servers report outside of calls: one listener for each server, and what it reports."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from mcp_app.catalogue.sources.upstream import known
from mcp_app.catalogue.upstreams import importing, standing, storing
from mcp_app.catalogue.upstreams.standing import StandingChanges
from mcp_app.database.queries import aquery
from mcp_app.models import Upstream
from mcp_app.protocol.versions import V2025_11_25
from tests.servers.upstream_state import forget_upstreams
from tests.unit.egress.sites import Heard, response, serve_kept

pytestmark = pytest.mark.django_db(transaction=True)

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
LISTED = {"resources": [{"uri": "file:///notes", "name": "notes"}, {"uri": "file:///more", "name": "more"}]}
CHANGES = {"tools": {"listChanged": True}, "resources": {"subscribe": True}}


class Changing:
    """A server of the legacy era. ``events`` are what its client does, and ``streams`` its open streams."""

    def __init__(self, capabilities: dict[str, Any] = CHANGES) -> None:
        self.capabilities = capabilities
        self.events: asyncio.Queue[str] = asyncio.Queue()
        self.streams: list[asyncio.StreamWriter] = []

    async def __call__(self, heard: Heard, writer: asyncio.StreamWriter) -> None:
        message = orjson.loads(heard.body) if heard.body else {}
        method = message.get("method", heard.line.split()[0])
        self.events.put_nowait(" ".join((method, *message.get("params", {}).get("uri", "").split())))
        if method == "GET":
            writer.write(HEAD)
            self.streams.append(writer)
        elif method == "initialize":
            told = {"protocolVersion": V2025_11_25, "capabilities": self.capabilities, "serverInfo": {}}
            writer.write(result(message, told, "Mcp-Session-Id: s"))
        elif "id" in message:
            writer.write(result(message, {}))
        else:
            writer.write(response(b"", status="202 Accepted"))

    def send(self, method: str, **params: Any) -> None:
        message = orjson.dumps({"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params})
        self.streams[-1].write(b"data: " + message + b"\n\n")

    async def until(self, event: str) -> list[str]:
        """Return the events up to ``event``."""
        found: list[str] = []
        async with asyncio.timeout(10):
            while event not in found:
                found.append(await self.events.get())
        return found


def result(message: Any, found: Any, *headers: str) -> bytes:
    return response(orjson.dumps({"jsonrpc": "2.0", "id": message["id"], "result": found}), *headers)


@pytest.fixture(autouse=True)
def fresh(settings: Any) -> Iterator[None]:
    settings.MCP = {**settings.MCP, "EGRESS_ALLOW": ("127.0.0.0/8",)}
    yield
    forget_upstreams()


def add(port: int, keys: tuple[str, ...] = ("resource file:///notes",)) -> None:
    row = storing.save_upstream(actor=None, name="other", url=f"http://127.0.0.1:{port}/mcp", era="legacy")
    Upstream.objects.filter(pk=row.pk).update(listed=storing.packed(LISTED))
    row.refresh_from_db()
    assert not importing.import_items(upstream=row, keys=keys, actor=None, publish=True).skipped


class Reports:
    """A process that listens. ``updated`` are URIs that it reports, and ``lists`` servers with changes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.updated: asyncio.Queue[str] = asyncio.Queue()
        self.lists: asyncio.Queue[str] = asyncio.Queue()
        self.changes = StandingChanges(self.updated.put, lambda: {"upstream"})
        monkeypatch.setattr(known, "on_list_change", [self.lists.put_nowait])
        monkeypatch.setattr(standing.following, "follow", self.lists.put_nowait)

    async def compare(self) -> None:
        await self.changes.compare(await aquery(standing._wanted))


@pytest.mark.requirement("INT-66")
def test_updates_reach_subscribers_by_the_uri_here(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        site, reports = Changing(), Reports(monkeypatch)
        async with serve_kept(site) as served:
            await aquery(add, served.port)
            await reports.compare()
            events = await site.until("GET")
            assert [each for each in events if "subscribe" in each] == ["resources/subscribe file:///notes"]
            for _ in range(3):
                site.send("resources/updated", uri="file:///notes")
            # Not published, so no client may learn of it.
            site.send("resources/updated", uri="file:///more")
            site.send("tools/list_changed")
            assert await reports.lists.get() == "other"
            assert await reports.updated.get() == "up+other:file:///notes"
            await reports.changes.close()
            await site.until("DELETE")
            assert reports.updated.empty()

    asyncio.run(run())


def test_stream_that_breaks_off_is_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing, "LEAST_SECONDS", 0.01)

    async def run() -> None:
        site, reports = Changing(), Reports(monkeypatch)
        async with serve_kept(site) as served:
            await aquery(add, served.port)
            await reports.compare()
            for _ in range(3):
                await site.until("GET")
                site.streams[-1].close()
            await site.until("GET")
            site.send("prompts/list_changed")
            assert await reports.lists.get() == "other"
            await reports.changes.close()

    asyncio.run(run())


def test_lists_are_read_once_the_stream_is_open_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that was started again may list other tools, and reports no change."""
    for name, seconds in (("LEAST_SECONDS", 0.01), ("SURE_SECONDS", 0.01), ("REREAD_SECONDS", -1.0)):
        monkeypatch.setattr(standing, name, seconds)

    async def run() -> None:
        site, reports = Changing(), Reports(monkeypatch)
        async with serve_kept(site) as served:
            await aquery(add, served.port)
            await reports.compare()
            await site.until("GET")
            assert reports.lists.empty()
            site.streams[-1].close()
            await site.until("GET")
            assert await reports.lists.get() == "other"
            await reports.changes.close()

    asyncio.run(run())


def test_listener_ends_with_its_server(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        site, reports = Changing(), Reports(monkeypatch)
        async with serve_kept(site) as served:
            await aquery(add, served.port)
            await reports.compare()
            await site.until("GET")
            await reports.compare()
            assert len(site.streams) == 1
            await aquery(lambda: Upstream.objects.update(enabled=False))
            await reports.compare()
            await site.until("DELETE")
            assert not reports.changes._running

    asyncio.run(run())


def test_server_that_reports_no_changes_has_no_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        site, reports = Changing({"tools": {}, "resources": {}}), Reports(monkeypatch)
        async with serve_kept(site) as served:
            await aquery(add, served.port)
            await reports.compare()
            await site.until("notifications/initialized")
            await reports.changes.close()
            assert "GET" not in await site.until("DELETE")

    asyncio.run(run())


def test_one_process_listens_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing, "POLL_SECONDS", 0.05)
    holders: list[str] = []

    def acquire(name: str, holder: str, _seconds: float) -> bool:
        if name != standing._LEASE:
            return True
        holders.append(holder)
        return holder == holders[0]

    monkeypatch.setattr(standing.shared_values, "acquire", acquire)

    async def run() -> None:
        site, first, other = Changing(), Reports(monkeypatch), Reports(monkeypatch)
        async with serve_kept(site) as served:
            await aquery(add, served.port)
            first.changes.start()
            await site.until("GET")
            other.changes.start()
            async with asyncio.timeout(10):
                while len({*holders}) < 2 or len(holders) < 6:
                    await asyncio.sleep(0.01)
            assert len(site.streams) == 1
            assert not other.changes._running
            for each in (first, other):
                await each.changes.close()

    asyncio.run(run())
