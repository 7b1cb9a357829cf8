"""Totals by name are independent of the cells they are summed from, and read few cells."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from importlib import import_module

import pytest
from django.apps import apps
from django.db import connection
from django.test import override_settings

from mcp_app.message_log.counts.figures import named
from mcp_app.message_log.rollup_cells import MINUTE
from mcp_app.message_log.rollups import DAY, HOUR, TEN_MINUTES
from mcp_app.message_log.traffic import PERIODS, Period, between
from mcp_app.models import CallerRollup, Rollup

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]

BEGAN = datetime(2026, 11, 9, 13, 20, tzinfo=UTC)
NOW = datetime(2026, 11, 18, 14, 37, 12, tzinfo=UTC)


def on(day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 11, day, hour, minute, tzinfo=UTC)


ASKED = {
    "last hour": PERIODS["hour"],
    "last day": PERIODS["day"],
    "last week": PERIODS["week"],
    "ten minutes": between(on(17, 5, 10), on(17, 5, 20), TEN_MINUTES),
    "whole hour": between(on(17, 5), on(17, 6), TEN_MINUTES),
    "midnight to midnight": between(on(16, 0), on(17, 0), TEN_MINUTES),
    "across midnight": between(on(16, 23, 50), on(17, 0, 10), TEN_MINUTES),
    "day and partial hours": between(on(15, 23, 30), on(17, 1, 40), TEN_MINUTES),
    "hours of three days": between(on(14, 22), on(17, 2), HOUR),
    "before counting started": between(on(9, 12), on(11, 2), HOUR),
}


@pytest.fixture
def calls() -> list[tuple[datetime, str]]:
    """Create one call every 7 to 90 minutes since counting started, by one of three names, and count it."""
    chance, found, at = random.Random(7), [], BEGAN
    while at < NOW:
        found.append((at, f"name {len(found) % 3}"))
        at += timedelta(minutes=chance.randint(7, 90))
    counts: dict[tuple[int, datetime, str], int] = {}
    for at, name in found:
        for span in (MINUTE, TEN_MINUTES, HOUR, DAY):
            cell = (span, datetime.fromtimestamp(at.timestamp() // span * span, UTC), name)
            counts[cell] = counts.get(cell, 0) + 1
    rows, callers = [], []
    for (span, at, name), count in counts.items():
        cells = {"span": span, "at": at, "outcome": "ok", "count": count, "b05": count}
        rows.append(Rollup(method="tools/call", tool=name, **cells))
        callers.append(CallerRollup(kind="client", name=name, **cells))
    Rollup.objects.bulk_create(rows)
    CallerRollup.objects.bulk_create(callers)
    return found


def shown(by: str, period: Period) -> dict[str, tuple[int, int]]:
    return {name: (calls.ok, calls.buckets[5]) for name, calls in named(by, period, NOW).calls}


@pytest.mark.parametrize("by", ["tool", "client"])
@pytest.mark.parametrize("asked", list(ASKED))
def test_each_call_of_period_is_counted_once(by: str, asked: str, calls: list[tuple[datetime, str]]) -> None:
    period = ASKED[asked]
    found = named(by, period, NOW)
    expected: dict[str, int] = {}
    for at, name in calls:
        if found.since <= at and (period.until is None or at < period.until):
            expected[name] = expected.get(name, 0) + 1
    assert shown(by, period) == {name: (count, count) for name, count in expected.items()}


def test_purged_days_and_hours_are_not_queried(
    calls: list[tuple[datetime, str]],
) -> None:
    week = shown("client", PERIODS["week"])
    day = ASKED["midnight to midnight"]
    two_days_ago = shown("client", day)
    with override_settings(MCP={"ROLLUP_DAYS": 1}):
        CallerRollup.objects.filter(span__in=(HOUR, DAY), at__lt=NOW - timedelta(days=1)).delete()
        assert shown("client", day) == two_days_ago
    assert shown("client", PERIODS["week"]) != week


@pytest.mark.parametrize("model", [Rollup, CallerRollup])
def test_migration_creates_same_day_rows_as_counting(
    model: type[Rollup | CallerRollup], calls: list[tuple[datetime, str]]
) -> None:
    key = "tool" if model is Rollup else "name"
    rows = model.objects.filter(span=DAY).order_by("at", key)
    columns = ("at", key, "outcome", "count", "b05", "b00")
    days = list(rows.values_list(*columns))
    migration = import_module("mcp_app.migrations.0034_rollups_of_days")
    editor = connection.schema_editor()
    migration.remove_days(apps, editor)
    assert not rows.exists()
    migration.add_days(apps, editor)
    assert list(rows.values_list(*columns)) == days


def test_week_is_summed_from_day_rows(calls: list[tuple[datetime, str]]) -> None:
    CallerRollup.objects.filter(span=HOUR, at__gte=on(12, 0), at__lt=on(18, 0)).delete()
    week = shown("client", PERIODS["week"])
    assert sum(count for count, _ in week.values()) == sum(at >= on(11, 15) for at, _ in calls)
