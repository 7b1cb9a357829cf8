"""Counts equal traffic: including skipped, malformed, and rewritten messages."""

from __future__ import annotations

import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any

import pytest
from django.db import connection
from django.db.models import Sum
from django.test import override_settings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_app.message_log import rollups
from mcp_app.message_log.rollup_cells import MISTAKES, OLDER, RollupCells, bucket_of, from_older
from mcp_app.message_log.traffic import CallFigures
from mcp_app.message_log.writer import drain_once
from mcp_app.models import CallerRollup, LogCursor, LogMinute, Message, Rollup, Session
from mcp_app.models.rollup import BOUNDS, BUCKET_COLUMNS
from mcp_app.protocol.messages.methods import OTHER
from tests.unit.sessions.queues import ListQueue, batch, line

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC).timestamp()


class Crash(BaseException):
    """A simulated crash of the worker."""


def drain_all(queue: Any) -> None:
    while queue.batches:
        drain_once(queue)


def counted(span: int = 60, *names: str) -> dict[Any, int]:
    rows = (
        Rollup.objects.filter(span=span, tool="")
        .exclude(method=MISTAKES)
        .order_by()
        .values_list(*names)
        .annotate(number=Sum("count"))
    )
    return {key[0] if len(key) == 1 else tuple(key): number for *key, number in rows}


def in_all(span: int, column: str = "count") -> int:
    # Mistakes are counted a second time.
    rows = Rollup.objects.filter(span=span, tool="").exclude(method=MISTAKES)
    return rows.aggregate(found=Sum(column))["found"] or 0


messages = st.lists(
    st.tuples(
        st.integers(0, 20_000),  # seconds after noon
        st.sampled_from(["tools/call", "tools/list", "ping", "made/up", "notifications/progress"]),
        st.sampled_from(["", "echo", "count"]),
        st.sampled_from(["ok", "tool_error", "error", "cancelled", ""]),
        st.one_of(st.none(), st.floats(0, 400_000)),
        st.sampled_from(["logged", "skipped"]),
    ),
    max_size=30,
)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(messages, min_size=1, max_size=6), st.integers(0, 40), st.booleans())
def test_rollups_equal_traffic_despite_skips_and_crashes(
    traffic: list[list[Any]], dies_at: int, says_what_it_skipped: bool
) -> None:
    for model in (Message, Rollup, LogMinute, Session, LogCursor):
        model.objects.all().delete()
    queue = ListQueue(*[_batch(part, says_what_it_skipped) for part in traffic])
    _die_at(dies_at, queue)
    drain_all(queue)
    sent = [each for part in traffic for each in part if _is_told(part)]
    logged = [each for each in sent if each[5] == "logged"]
    assert Message.objects.count() == len(logged)
    for span in rollups.SPANS:
        assert in_all(span) == len(sent)
        assert in_all(span, "skipped") == len(sent) - len(logged)
    assert sum(in_all(60, column) for column in BUCKET_COLUMNS) == sum(
        each[4] is not None for each in (sent if says_what_it_skipped else logged)
    )
    known = sent if says_what_it_skipped else logged
    expected = Counter((_method(each[1]), each[3]) for each in known)
    expected[OTHER, ""] += len(sent) - len(known)
    assert counted(60, "method", "outcome") == +expected


def _is_told(part: list[Any]) -> bool:
    """Return True if the skip count has a line to travel with: a batch without lines reports none."""
    return any(each[5] == "logged" for each in part)


def _method(name: str) -> str:
    return name if name in ("tools/call", "tools/list", "ping") else OTHER


def _batch(part: list[Any], says_what_it_skipped: bool) -> bytes:
    skipped = [each for each in part if each[5] == "skipped"] if _is_told(part) else []
    lines = [
        line(at=NOON + at, method=method, target=target, outcome=outcome, ms=ms)
        for at, method, target, outcome, ms, kind in part
        if kind == "logged"
    ]
    tally = RollupCells()
    for at, method, target, outcome, ms, _ in skipped:
        tally.add(NOON + at, method, target, outcome, ms, skipped=True)
    more = {"tally": tally.written()} if says_what_it_skipped else {}
    return batch(*lines, skipped=len(skipped), **more)


def _die_at(number: int, queue: Any) -> None:
    """Run LogWriter up to the statement of that number; the next worker starts over."""
    seen = 0

    def die(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        nonlocal seen
        seen += 1
        if seen > number:
            raise Crash
        return execute(sql, params, many, context)

    with connection.execute_wrapper(die):
        try:
            drain_all(queue)
        except Crash:
            return


def test_unwritable_batch_is_counted_by_its_sequence_number() -> None:
    poison = batch(line("1"), line("2", at="yesterday"), skipped=3)
    queue = ListQueue(batch(line("0")), poison)
    drain_all(queue)
    assert counted(60, "method", "outcome") == {("tools/call", "ok"): 1, (OTHER, ""): 5}
    assert in_all(60, "skipped") == 5


@pytest.mark.parametrize("wrong", ["x", [["x"]], [[1, "a", "b", "c"]], [[0, "ping", "", "ok", *["x"] * 21]]])
def test_malformed_tally_does_not_stop_drain(wrong: Any) -> None:
    queue = ListQueue(batch(line("1"), skipped=2, tally=wrong), batch(line("2")))
    drain_all(queue)
    assert in_all(60) == 4
    assert in_all(60, "skipped") == 3


@pytest.mark.parametrize("many", [10**9, 10**15])
def test_implausible_count_does_not_stop_drain(many: int) -> None:
    tally = [[0, "ping", "", "ok", many, 0, 0.0, *[0] * len(BUCKET_COLUMNS)]]
    negative = [[0, "ping", "", "ok", -5, 0, 0.0, *[0] * len(BUCKET_COLUMNS)]]
    drain_all(
        ListQueue(
            batch(line("1"), skipped=many),
            batch(line("2"), skipped=1, tally=tally),
            batch(line("3"), skipped=1, tally=negative),
            batch(line("4")),
        )
    )
    assert list(Message.objects.order_by("pk").values_list("request_id", flat=True)) == ["", "", "", "4"]


def test_durations_are_counted_in_matching_buckets() -> None:
    queue = ListQueue(batch(*[line(str(bound), at=NOON, ms=bound * 999) for bound in (*BOUNDS, 4_000)]))
    drain_all(queue)
    row = Rollup.objects.get(span=3600, tool="echo")
    assert [getattr(row, column) for column in BUCKET_COLUMNS] == [1] * (len(BOUNDS) + 1)
    assert row.ms == pytest.approx(sum((*BOUNDS, 4_000)) * 999)


def test_counts_of_older_version_are_mapped_to_current_buckets() -> None:
    counts = range(1, len(OLDER) + 2)
    at = datetime.fromtimestamp(NOON, UTC)
    older = dict(zip(BUCKET_COLUMNS, counts, strict=False))
    Rollup.objects.create(span=3600, at=at, method="tools/call", tool="echo", outcome="ok", **older)
    CallerRollup.objects.create(span=3600, at=at, kind="client", name="c", outcome="ok", **older)
    with connection.cursor() as cursor:
        import_module("mcp_app.migrations.0033_finer_durations").move(None, cursor)
    for model in (Rollup, CallerRollup):
        (row,) = model.objects.values_list(*BUCKET_COLUMNS)
        assert [count or 0 for count in row] == from_older(counts)
    # New counts are added to them.
    drain_all(ListQueue(batch(line("1", at=NOON, ms=3_500_000.0), line("2", at=NOON, ms=17_000.0))))
    found = CallFigures()
    (row,) = Rollup.objects.filter(span=3600, tool="echo").values_list(*BUCKET_COLUMNS)
    found.add("ok", 2, row)
    assert sum(found.buckets) == sum(counts) + 2
    assert found.buckets[bucket_of(17_000)] == counts[OLDER.index(30)] + 1


def test_tools_above_limit_are_counted_as_other_per_hour() -> None:
    names = [f"tool-{number}" for number in range(rollups.MOST_TOOLS + 20)]
    queue = ListQueue(*[batch(line(target=name, at=NOON + 60 * at)) for at, name in enumerate(names[:50])])
    queue.add(batch(*[line(target=name, at=NOON + 1) for name in names]))
    queue.add(batch(line(target="tool-119", at=NOON + 3600)))
    drain_all(queue)
    named = Rollup.objects.filter(span=3600).exclude(tool="").values_list("at", "tool", "count")
    by_tool = {(at, tool): count for at, tool, count in named}
    noon = datetime.fromtimestamp(NOON, UTC)
    assert len(by_tool) == rollups.MOST_TOOLS + 2
    assert by_tool[noon, OTHER] == 20
    assert by_tool[noon + timedelta(hours=1), "tool-119"] == 1
    assert sum(by_tool.values()) == 50 + len(names) + 1


def test_minute_bounds_include_late_messages() -> None:
    queue = ListQueue(
        batch(line("1", at=NOON), line("2", at=NOON + 61)),
        batch(line("3", at=NOON + 62), line("late", at=NOON + 1)),
    )
    drain_all(queue)
    one, two, three, late = Message.objects.order_by("pk").values_list("pk", flat=True)
    places = {row.at.timestamp() - NOON: (row.first_id, row.last_id) for row in LogMinute.objects.all()}
    assert places == {0: (one, late), 60: (two, three)}


def test_each_span_is_purged_after_its_own_retention(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollups, "SLICE", 2)
    now = time.time()
    for days in (0, 1, 3, 7, 9, 20, 40):
        tally = RollupCells()
        tally.add(now - days * 86_400, "ping", "", "ok", 1)
        rollups.write(tally)
    with override_settings(MCP={"ROLLUP_DAYS": 30}):
        assert rollups.purge() == 5 + 3 + 1 + 1
    kept = Counter(Rollup.objects.values_list("span", flat=True))
    assert kept == {60: 2, 600: 4, 3600: 6, 86_400: 6}


def test_minute_bounds_are_purged_with_their_messages() -> None:
    drain_all(ListQueue(batch(line("1", at=NOON)), batch(line("2", at=NOON + 60))))
    Message.objects.filter(request_id="1").delete()
    rollups.purge()
    assert [row.at for row in LogMinute.objects.all()] == [datetime.fromtimestamp(NOON + 60, UTC)]
    Message.objects.all().delete()
    rollups.purge()
    assert not LogMinute.objects.exists()


def test_session_counts_its_messages() -> None:
    Session.objects.create(
        id="s" * 32, principal="p", protocol_version="2025-11-25",
        created_at=datetime.now(UTC), last_seen_at=datetime.now(UTC) - timedelta(days=1),
    )  # fmt: skip
    drain_all(
        ListQueue(
            batch(*[line(str(at), session="s" * 32) for at in range(3)], line("4")),
            batch(line("5", session="s" * 32, direction="out")),
        )
    )
    assert Session.objects.get().messages_logged == 4
