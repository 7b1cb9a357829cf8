"""The buffer of one console page: ordered, bounded, every dropped line counted."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from mcp_app.console import viewer as module
from mcp_app.console.viewer import FRAME_ROWS, MOST_FRAMES, MOST_WAITING, Viewer, ViewerStalled
from mcp_app.message_log.search.language import Search, Term
from tests.unit.console.lines import line

EVERYTHING = Search()


def watching(search: Search = EVERYTHING, session: str = "") -> Viewer:
    viewer = Viewer()
    viewer.watch_messages(search, session)
    return viewer


async def frame(viewer: Viewer) -> dict[str, Any]:
    async with asyncio.timeout(5):
        found: dict[str, Any] = orjson.loads(await viewer.next_frame())
    viewer.drawn(found["frame"])
    return found


async def ids(viewer: Viewer) -> list[str]:
    return [row["id"] for row in (await frame(viewer))["rows"]]


async def test_lines_arrive_in_order_in_bounded_frames() -> None:
    viewer = watching()
    viewer.offer(line(request_id=str(number)) for number in range(FRAME_ROWS + 5))
    assert await ids(viewer) == [str(number) for number in range(FRAME_ROWS)]
    assert await ids(viewer) == [str(number) for number in range(FRAME_ROWS, FRAME_ROWS + 5)]


async def test_viewer_receives_only_matching_lines() -> None:
    from django.db.models import Q

    viewer = watching(Search((Term(lambda each: each.request_id == "2", Q()),)), "s")
    viewer.offer([line(request_id="1"), line(request_id="2"), line(request_id="2", session="other")])
    assert await ids(viewer) == ["2"]


async def test_overflow_drops_oldest_lines_and_counts_them() -> None:
    viewer = watching()
    viewer.offer(line(request_id=str(number)) for number in range(MOST_WAITING + 7))
    found = await frame(viewer)
    assert found["skipped"] == 7
    assert found["rows"][0]["id"] == "7"
    assert (await frame(viewer))["skipped"] == 0


async def test_missed_lines_are_counted_as_skipped() -> None:
    viewer = watching()
    viewer.missed(3)
    viewer.missed(2)
    assert (await frame(viewer))["skipped"] == 5


async def test_viewer_sends_no_frame_until_page_acknowledges_drawing() -> None:
    viewer = watching()
    for number in range(MOST_FRAMES):
        viewer.offer([line(request_id=str(number))])
        await viewer.next_frame()
    viewer.offer([line(request_id="held")])
    waiting = asyncio.create_task(viewer.next_frame())
    await asyncio.sleep(0)
    assert not waiting.done()
    viewer.drawn(99)  # An acknowledgement of a frame that was never sent is ignored.
    await asyncio.sleep(0)
    assert not waiting.done()
    viewer.drawn(1)
    async with asyncio.timeout(5):
        assert orjson.loads(await waiting)["rows"][0]["id"] == "held"


async def test_viewer_without_drawing_acknowledgement_raises_stalled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STALLED_SECONDS", 0.01)
    viewer = watching()
    for _ in range(MOST_FRAMES):
        viewer.offer([line()])
        await viewer.next_frame()
    viewer.offer([line()])
    with pytest.raises(ViewerStalled):
        await viewer.next_frame()


async def test_new_search_drops_pending_lines_of_old_search() -> None:
    viewer = watching()
    viewer.offer([line(request_id="old")])
    viewer.watch_messages(EVERYTHING, "")
    viewer.offer([line(request_id="new")])
    assert await ids(viewer) == ["new"]


async def test_pending_notices_of_one_kind_are_merged() -> None:
    viewer = Viewer()
    viewer.watch_sessions()
    viewer.queue_data("opened", [{"id": "a"}])
    viewer.queue_data("opened", [{"id": "b"}])
    viewer.queue_data("seen", {"a": 1, "b": 1})
    viewer.queue_data("seen", {"a": 2})
    viewer.queue_data("note", "first")
    viewer.queue_data("note", "second")
    viewer.offer([line()])
    found = await frame(viewer)
    assert found["opened"] == [{"id": "a"}, {"id": "b"}]
    assert found["seen"] == {"a": 2, "b": 1}
    assert found["note"] == "second"
    assert found["rows"] == []


async def test_row_marks_hidden_characters() -> None:
    viewer = watching()
    viewer.offer([line(method="a\u202eb", target="\x1b", request_id="\u200b", principal="\n")])
    (row,) = (await frame(viewer))["rows"]
    assert (row["method"], row["target"], row["id"], row["who"]) == (
        "a⟦U+202E⟧b",
        "⟦U+001B⟧",
        "⟦U+200B⟧",
        "⟦U+000A⟧",
    )
