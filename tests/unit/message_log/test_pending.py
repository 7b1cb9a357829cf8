"""An answer replaces the marks of its request, in whatever order the lines arrive."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import Sum
from django.test.utils import CaptureQueriesContext

from mcp_app.database import clock
from mcp_app.message_log import pending
from mcp_app.message_log.pending import end_abandoned
from mcp_app.message_log.search.language import parse
from mcp_app.message_log.writer import drain_once
from mcp_app.models import LogCursor, Message, Rollup, Session
from tests.samples.admin_seed import background_call
from tests.unit.sessions.queues import ListQueue, batch, line, opened

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]

STATES = ("waiting", "queued", "running")
SESSION, OTHER = "s" * 32, "o" * 32
NOW = time.time()


def mark(request_id: str = "1", kind: str = "running", at: float = NOW, **changes: Any) -> list[Any]:
    return line(
        request_id, kind=kind, at=at, answer="", outcome="", ms=None, **{"session": SESSION, **changes}
    )


def answer(request_id: str = "1", at: float = NOW + 2, ms: float | None = 2_000, **changes: Any) -> list[Any]:
    return line(request_id, at=at, ms=ms, **{"session": SESSION, **changes})


def store(*batches: Any) -> None:
    LogCursor.objects.all().delete()
    queue: Any = ListQueue(*batches)
    while queue.batches:
        drain_once(queue)


def kinds() -> list[str]:
    return list(Message.objects.order_by("pk").values_list("kind", flat=True))


CASES: dict[str, tuple[list[list[Any]], list[str]]] = {
    "answered": ([mark(), answer()], ["request"]),
    "waited, then ran": ([mark(kind="waiting"), mark(at=NOW + 1), answer()], ["request"]),
    "queued, then ran": ([mark(kind="queued"), mark(at=NOW + 1), answer()], ["request"]),
    "approved": ([mark(kind="waiting"), mark(kind="queued", at=NOW + 1)], ["queued"]),
    "approved, then ran": ([mark(kind=each, at=NOW + at) for at, each in enumerate(STATES)], ["running"]),
    "waits no longer": ([mark(kind="waiting"), mark(at=NOW + 1)], ["running"]),
    "waited for days": ([mark(kind="waiting", at=NOW - 200_000), answer(ms=3)], ["request"]),
    "refused without a duration": ([mark(kind="waiting"), answer(ms=None)], ["request"]),
    "stored after its answer": ([answer(), mark()], ["request"]),
    "another request": ([mark(), answer("2")], ["running", "request"]),
    "another session": ([mark(), answer(session=OTHER)], ["running", "request"]),
    "another tool": ([mark(), answer(target="add")], ["running", "request"]),
    "a later request with the same id": ([mark(at=NOW + 9), answer()], ["running", "request"]),
    "a quick request with the same id": ([mark(), answer(at=NOW + 60, ms=3)], ["running", "request"]),
    "no session": ([mark(session=None), answer(session=None)], ["request"]),
    "no session, another caller": (
        [mark(session=None), answer(session=None, principal="user:2")],
        ["running", "request"],
    ),
    "a question of the same call": ([mark(), answer(direction="out")], ["running", "request"]),
}  # fmt: skip


@pytest.mark.parametrize("together", [True, False], ids=["one batch", "several batches"])
@pytest.mark.parametrize("name", CASES)
def test_answer_replaces_the_marks_of_its_request(name: str, together: bool) -> None:
    lines, expected = CASES[name]
    store(*([batch(*lines)] if together else [batch(each) for each in lines]))
    assert sorted(kinds()) == sorted(expected)


@pytest.mark.parametrize("together", [True, False])
def test_dropped_messages_stay_counted_when_their_mark_is_replaced(together: bool) -> None:
    if together:
        store(batch(mark(), answer(), skipped=3))
    else:
        store(batch(mark(), skipped=3), batch(answer()))
    assert sum(Message.objects.values_list("skipped", flat=True)) == 3
    assert not Message.objects.filter(kind="running").exists()


def test_late_mark_that_counts_dropped_messages_becomes_their_row() -> None:
    store(batch(answer()), batch(mark(), skipped=2))
    assert list(Message.objects.order_by("pk").values_list("kind", "skipped")) == [
        ("request", 0),
        ("skipped", 2),
    ]


def test_row_that_only_counts_dropped_messages_is_not_counted_itself() -> None:
    store(batch(answer(), facts=[opened(SESSION)]), batch(mark(), skipped=2))
    assert Session.objects.get().messages_logged == 1
    counted = Rollup.objects.filter(span=60, tool="").aggregate(messages=Sum("count"), dropped=Sum("skipped"))
    assert counted == {"messages": 3, "dropped": 2}


def test_late_session_does_not_count_rows_of_dropped_messages() -> None:
    store(batch(answer()), batch(mark(), skipped=2), batch(facts=[opened(SESSION)]))
    assert Session.objects.get().messages_logged == 1


def test_request_is_counted_once_in_its_session() -> None:
    store(batch(mark(kind="waiting"), facts=[opened(SESSION)]), batch(mark(at=NOW + 1)), batch(answer()))
    assert Session.objects.get().messages_logged == 1


def test_batch_without_pending_requests_takes_one_more_query() -> None:
    store(batch(answer("0")))
    with CaptureQueriesContext(connection) as captured:
        store(batch(*(answer(str(number)) for number in range(1, 9))))
    assert sum("pending" in each["sql"] and each["sql"].startswith("SELECT 1") for each in captured) == 1
    assert sum("pending" in each["sql"] and "DELETE" in each["sql"] for each in captured) == 0


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("kind:running", ["2"]),
        ("kind:waiting", ["3"]),
        ("-kind:running", ["1", "3"]),
        ("kind:request", ["1"]),
    ],
)
def test_kind_running_finds_only_requests_that_run_now(text: str, found: list[str]) -> None:
    store(batch(mark("1"), mark("2"), mark("3", kind="waiting")), batch(answer("1")))
    rows = parse(text).narrow(Message.objects.order_by("request_id"))
    assert list(rows.values_list("request_id", flat=True)) == found


def test_running_requests_are_found_by_their_index() -> None:
    if connection.vendor == "sqlite":
        assert "mcp_message_pending" in Message.objects.filter(pending="running").explain()


def test_abandoned_mark_becomes_a_request_without_an_answer() -> None:
    old = clock.utcnow() - timedelta(hours=pending.LONGEST_HOURS, minutes=1)
    background_call(OTHER, 2, tool="count", state="running", finished_at=None)
    store(
        batch(
            mark("1", at=old.timestamp()),
            mark("2", at=old.timestamp(), session=OTHER, target="count"),
            mark("3"),
        )
    )
    assert end_abandoned() == 1
    assert dict(Message.objects.values_list("request_id", "kind")) == {
        "1": "request",
        "2": "running",
        "3": "running",
    }


def test_calls_that_wait_long_do_not_hold_up_the_end_of_abandoned_marks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pending, "MOST_ABANDONED", 1)
    old = (clock.utcnow() - timedelta(hours=pending.LONGEST_HOURS, minutes=1)).timestamp()
    background_call(OTHER, 2, tool="count", state="running", finished_at=None)
    store(batch(mark("1", at=old, session=OTHER, target="count"), mark("2", at=old), mark("3", at=old)))
    assert (end_abandoned(), end_abandoned(), end_abandoned()) == (1, 1, 0)
    assert kinds() == ["running", "request", "request"]
