"""What waits for one page: in order, bounded, nothing dropped without being counted."""

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


async def test_lines_come_in_order_in_frames_of_a_bounded_size() -> None:
    viewer = watching()
    viewer.offer(line(request_id=str(number)) for number in range(FRAME_ROWS + 5))
    assert await ids(viewer) == [str(number) for number in range(FRAME_ROWS)]
    assert await ids(viewer) == [str(number) for number in range(FRAME_ROWS, FRAME_ROWS + 5)]


async def test_only_lines_that_are_looked_for_come() -> None:
    from django.db.models import Q

    viewer = watching(Search((Term(lambda each: each.request_id == "2", Q()),)), "s")
    viewer.offer([line(request_id="1"), line(request_id="2"), line(request_id="2", session="other")])
    assert await ids(viewer) == ["2"]


async def test_when_more_comes_than_a_page_takes_the_oldest_go_and_are_counted() -> None:
    viewer = watching()
    viewer.offer(line(request_id=str(number)) for number in range(MOST_WAITING + 7))
    found = await frame(viewer)
    assert found["skipped"] == 7
    assert found["rows"][0]["id"] == "7"
    assert (await frame(viewer))["skipped"] == 0


async def test_lines_nobody_here_saw_are_counted_too() -> None:
    viewer = watching()
    viewer.missed(3)
    viewer.missed(2)
    assert (await frame(viewer))["skipped"] == 5


async def test_a_page_that_does_not_draw_is_sent_no_more_until_it_does() -> None:
    viewer = watching()
    for number in range(MOST_FRAMES):
        viewer.offer([line(request_id=str(number))])
        await viewer.next_frame()
    viewer.offer([line(request_id="held")])
    waiting = asyncio.create_task(viewer.next_frame())
    await asyncio.sleep(0)
    assert not waiting.done()
    viewer.drawn(99)  # A frame that was never sent says nothing.
    await asyncio.sleep(0)
    assert not waiting.done()
    viewer.drawn(1)
    async with asyncio.timeout(5):
        assert orjson.loads(await waiting)["rows"][0]["id"] == "held"


async def test_a_page_that_never_draws_again_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STALLED_SECONDS", 0.01)
    viewer = watching()
    for _ in range(MOST_FRAMES):
        viewer.offer([line()])
        await viewer.next_frame()
    viewer.offer([line()])
    with pytest.raises(ViewerStalled):
        await viewer.next_frame()


async def test_another_search_drops_what_waited_for_the_old_one() -> None:
    viewer = watching()
    viewer.offer([line(request_id="old")])
    viewer.watch_messages(EVERYTHING, "")
    viewer.offer([line(request_id="new")])
    assert await ids(viewer) == ["new"]


async def test_news_of_one_kind_are_joined_while_they_wait() -> None:
    viewer = Viewer()
    viewer.watch_sessions()
    viewer.tell("opened", [{"id": "a"}])
    viewer.tell("opened", [{"id": "b"}])
    viewer.tell("seen", {"a": 1, "b": 1})
    viewer.tell("seen", {"a": 2})
    viewer.tell("note", "first")
    viewer.tell("note", "second")
    viewer.offer([line()])
    found = await frame(viewer)
    assert found["opened"] == [{"id": "a"}, {"id": "b"}]
    assert found["seen"] == {"a": 2, "b": 1}
    assert found["note"] == "second"
    assert found["rows"] == []


async def test_a_row_has_its_hidden_characters_marked() -> None:
    viewer = watching()
    viewer.offer([line(method="a\u202eb", target="\x1b", request_id="\u200b", principal="\n")])
    (row,) = (await frame(viewer))["rows"]
    assert (row["method"], row["target"], row["id"], row["who"]) == (
        "a⟦U+202E⟧b",
        "⟦U+001B⟧",
        "⟦U+200B⟧",
        "⟦U+000A⟧",
    )
