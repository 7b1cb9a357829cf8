"""The single log reader of a process: every viewer receives new lines, and gaps are counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from asgiref.sync import sync_to_async

from mcp_app.console.feed import Feed
from mcp_app.console.viewer import Viewer
from mcp_app.database import clock
from mcp_app.message_log.search.language import Search, parse
from mcp_app.streams import StreamLimits, Streams
from tests.streams_contract.waiting import until
from tests.unit.console.lines import encoded, fields

# The feed looks up the names in lines.
pytestmark = pytest.mark.django_db


@pytest.fixture
async def streams() -> Streams:
    made = Streams.in_memory(StreamLimits(log_batches=20))
    await made.start()
    return made


@pytest.fixture
async def feed(streams: Streams) -> AsyncIterator[Feed]:
    made = Feed(streams)
    yield made
    for viewer in list(made._viewers):
        await made.leave(viewer)


async def watching(feed: Feed, session: str = "") -> Viewer:
    viewer = Viewer()
    viewer.watch_messages(Search(), session)
    await feed.join(viewer)
    return viewer


async def frame(viewer: Viewer) -> dict[str, Any]:
    async with asyncio.timeout(5):
        found: dict[str, Any] = orjson.loads(await viewer.next_frame())
    viewer.drawn(found["frame"])
    return found


def numbered(*numbers: int, before: int, **changes: Any) -> bytes:
    return encoded(*(fields(request_id=str(number)) for number in numbers), before=before, **changes)


async def test_new_batch_reaches_every_viewer_without_earlier_lines(feed: Feed, streams: Streams) -> None:
    await streams.messages.push(numbered(1, before=0))
    viewers = [await watching(feed) for _ in range(3)]
    await streams.messages.push(numbered(2, 3, before=1))
    for viewer in viewers:
        found = await frame(viewer)
        assert [row["id"] for row in found["rows"]] == ["2", "3"]
        assert found["rows"][1]["key"] == "1790000000250000.2-0-1"
        assert found["skipped"] == 0


async def test_batch_trimmed_before_reading_is_counted_as_skipped(feed: Feed, streams: Streams) -> None:
    viewer = await watching(feed)
    await streams.messages.push(numbered(1, before=0))
    assert (await frame(viewer))["skipped"] == 0
    await streams.messages.push(numbered(5, before=4))
    found = await frame(viewer)
    assert (found["skipped"], [row["id"] for row in found["rows"]]) == (3, ["5"])
    await streams.messages.push(numbered(7, before=3, process="host:2"))
    assert (await frame(viewer))["skipped"] == 0  # A process seen for the first time.
    await streams.messages.push(numbered(1, before=0))
    assert (await frame(viewer))["skipped"] == 0  # The first process has restarted.


async def test_batch_trimmed_without_successor_makes_page_reload(
    feed: Feed, streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_app.console.feed.WAIT_SECONDS", 0.01)
    viewer = await watching(feed)
    viewer.now_watching("tool:echo")
    assert (await frame(viewer))["watching"] == "tool:echo"
    await streams.messages.push(numbered(0, before=0))
    assert [row["id"] for row in (await frame(viewer))["rows"]] == ["0"]
    # Both run within one turn of the event loop: the feed has no chance to read the batch.
    await streams.messages.push(numbered(1, before=1))
    await streams.messages.trim(await streams.tail.newest())
    found = await frame(viewer)
    assert (found["watching"], found["rows"], found["skipped"]) == ("tool:echo", [], 0)
    await streams.messages.push(numbered(2, before=2))
    found = await frame(viewer)
    assert ([row["id"] for row in found["rows"]], found["skipped"]) == (["2"], 0)
    assert "watching" not in found


async def test_malformed_batch_is_counted_and_later_batches_arrive(feed: Feed, streams: Streams) -> None:
    viewer = await watching(feed)
    await streams.messages.push(b"not json")
    await streams.messages.push(
        orjson.dumps({"process": "x", "before": 0, "lines": [[1, 2]], "facts": [], "skipped": 0})
    )
    await streams.messages.push(numbered(9, before=0))
    skipped, rows = 0, []
    while not rows:
        found = await frame(viewer)
        skipped, rows = skipped + found["skipped"], found["rows"]
    assert (skipped, rows[0]["id"]) == (2, "9")


async def test_reading_stops_with_last_viewer_and_resumes_with_next(feed: Feed, streams: Streams) -> None:
    heard: list[Any] = []
    streams.hub.subscribe("watching", heard.append)
    first, second = await watching(feed), await watching(feed)

    async def told() -> bool:
        return bool(heard)

    await until(told)
    tasks = list(feed._tasks)
    assert tasks
    await feed.leave(first)
    assert not any(task.done() for task in tasks)
    await feed.leave(second)
    assert all(task.done() for task in tasks)
    assert feed._tasks == []
    # A later viewer receives only lines from its own start.
    await streams.messages.push(numbered(1, before=0))
    again = await watching(feed)
    await streams.messages.push(numbered(2, before=1))
    assert [row["id"] for row in (await frame(again))["rows"]] == ["2"]


async def test_session_list_receives_opened_seen_and_ended(feed: Feed, streams: Streams) -> None:
    viewer = Viewer()
    viewer.watch_sessions()
    await feed.join(viewer)
    opened = {
        "fact": "session.opened",
        "at": 1_790_000_000.0,
        "session": "s",
        "principal": "loopback",
        "user": None,
        "version": "2025-11-25",
        "client_name": "raw\u202e",
        "client_version": "1",
        "fields": {},
        "address": "127.0.0.1",
    }
    ended = {"fact": "session.ended", "at": 1_790_000_001.0, "session": "t", "reason": "bye"}
    await streams.messages.push(encoded(fields(), facts=[opened, ended, {"fact": "unknown", "at": 1}]))
    found = await frame(viewer)
    assert (found["opened"][0]["id"], found["opened"][0]["client"]) == ("s", "raw⟦U+202E⟧ 1")
    assert found["ended"] == [{"id": "t", "reason": "bye"}]
    assert found["seen"] == {"s": {"at": 1_790_000_000_250, "process": "host:1"}}
    await streams.hub.publish("session", {"session": "s", "what": "ended", "reason": "an operator"})
    assert (await frame(viewer))["ended"] == [{"id": "s", "reason": "an operator"}]


async def test_process_reports_reach_session_list_and_session_page(feed: Feed, streams: Streams) -> None:
    everywhere, page, other = Viewer(), await watching(feed, "s"), await watching(feed, "t")
    everywhere.watch_sessions()
    await feed.join(everywhere)
    running = [{"id": "\u202e", "method": "tools/call", "target": "echo"}]
    report = {"s": {"listening": True, "streams": 2, "calls": 1, "running": running}}
    await streams.hub.publish("live", {"process": "host:1", "at": 1, "sessions": report, "more": 0})
    assert (await frame(everywhere))["live"] == {"host:1": {"sessions": {"s": [True, 2, 1]}, "more": 0}}
    (shown,) = (await frame(page))["live"]["host:1"]["running"]
    assert (shown["id"], shown["shown"]) == ("\u202e", "⟦U+202E⟧")
    assert (await frame(other))["live"]["host:1"]["streams"] == 0


async def test_note_reports_missing_log_worker(feed: Feed, streams: Streams) -> None:
    for number in range(20):
        await streams.messages.push(numbered(number, before=number))
    viewer = await watching(feed)
    assert "No worker" in (await frame(viewer))["note"]
    await streams.messages.trim("15-0")
    newcomer = await watching(feed)  # Triggers reports and a queue check.
    assert (await frame(newcomer))["note"] == ""
    assert (await frame(viewer))["note"] == ""


async def test_page_learns_of_answers_that_do_not_match_its_search(feed: Feed, streams: Streams) -> None:
    now = {"kind": "running"}
    viewer = Viewer()
    viewer.watch_messages(await sync_to_async(parse)("kind:running"), "")
    await feed.join(viewer)
    await streams.messages.push(encoded(fields(request_id="1", **now, ms=None, outcome=""), before=0))
    assert [row["id"] for row in (await frame(viewer))["rows"]] == ["1"]
    at = clock.timestamp()
    # Requests that began after the feed and were never running are not sent.
    others = [fields(request_id=str(number), at=at + 1, ms=1.0) for number in range(2, 5)]
    await streams.messages.push(encoded(*others, fields(request_id="1", at=at + 1, ms=5.0), before=1))
    found = await frame(viewer)
    assert (found["rows"], [row["id"] for row in found["answered"]]) == ([], ["1"])
    # A request that began before the feed may be shown from the history.
    await streams.messages.push(encoded(fields(request_id="9", at=at + 1, ms=60_000.0), before=5))
    assert [row["id"] for row in (await frame(viewer))["answered"]] == ["9"]
