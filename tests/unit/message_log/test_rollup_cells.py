"""Counting messages in cells: folded names, bounds, and percentiles of histograms."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_app.message_log.rollup_cells import (
    COUNT,
    FIRST_BUCKET,
    MS,
    OLDER,
    SKIPPED,
    WIDTH,
    RollupCells,
    bucket_of,
    percentile,
    read,
)
from mcp_app.models.rollup import BOUNDS
from mcp_app.protocol.messages.methods import OTHER

MINUTE = 1_790_000_040  # start of a minute


@pytest.mark.parametrize(
    ("method", "target", "outcome", "key"),
    [
        ("tools/call", "echo", "ok", ("tools/call", "echo", "ok")),
        ("tools/call", "", "error", ("tools/call", OTHER, "error")),
        ("tools/call", "x" * 999, "ok", ("tools/call", "x" * 128, "ok")),
        ("resources/read", "file:///any/of/many", "ok", ("resources/read", "", "ok")),
        ("made/up", "echo", "error", (OTHER, "", "error")),
        ("notifications/initialized", "", "", (OTHER, "", "")),
    ],
)
def test_message_is_counted_under_bounded_names(
    method: str, target: str, outcome: str, key: tuple[str, str, str]
) -> None:
    tally = RollupCells()
    tally.add(MINUTE + 59.9, method, target, outcome, 1.5)
    ((found, cell),) = tally.cells.items()
    assert found == (MINUTE, *key)
    assert (cell[COUNT], cell[SKIPPED], cell[MS], sum(cell[FIRST_BUCKET:])) == (1, 0, 1.5, 1)


def test_untimed_message_is_in_no_bucket() -> None:
    tally = RollupCells()
    tally.add(MINUTE, "ping", "", "", None)
    assert next(iter(tally.cells.values())) == [1] + [0] * (WIDTH - 1)


def test_full_tally_counts_without_names() -> None:
    tally = RollupCells(most=3)
    for number in range(50):
        tally.add(MINUTE + number * 60, "tools/call", f"tool-{number}", "ok", 1.0)
    assert tally.total == 50
    assert len(tally.cells) == 4
    assert tally.cells[MINUTE, OTHER, "", "ok"][COUNT] == 47


added = st.tuples(
    st.integers(0, 10_000), st.sampled_from(["ping", "tools/call", "x"]), st.sampled_from(["", "a", "b"]),
    st.sampled_from(["", "ok", "error"]), st.one_of(st.none(), st.integers(0, 400_000).map(float)),
    st.booleans(),
)  # fmt: skip


def _tally(messages: list[Any], most: int | None = None) -> RollupCells:
    tally = RollupCells(most)
    for at, method, target, outcome, ms, skipped in messages:
        tally.add(at, method, target, outcome, ms, skipped=skipped)
    return tally


@given(st.lists(added), st.lists(added), st.sampled_from([None, 2]))
def test_subtracting_written_tally_keeps_later_counts(
    first: list[Any], second: list[Any], most: int | None
) -> None:
    tally = _tally(first, most)
    written = tally.written()
    for at, method, target, outcome, ms, skipped in second:
        tally.add(at, method, target, outcome, ms, skipped=skipped)
    before = tally.total
    tally.subtract(written)
    assert tally.total == before - len(first) == len(second)
    read_back = RollupCells()
    read_back.merge(read(written))
    assert read_back.total == len(first)


@pytest.mark.parametrize("wrong", [[[1, "a", "b", "c", 1]], [[1, 2, "b", "c", *[0] * WIDTH]], [["x"]], [3]])
def test_malformed_tally_is_rejected(wrong: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        read(wrong)


@given(st.lists(st.floats(0.001_001, 3_600), min_size=1), st.sampled_from([0.5, 0.95]))
def test_percentile_is_within_a_tenth_of_true_value(seconds: list[float], share: float) -> None:
    tally = RollupCells()
    for each in seconds:
        tally.add(0, "ping", "", "ok", each * 1000)
    (cell,) = tally.cells.values()
    found = percentile(cell[FIRST_BUCKET:], share)
    assert found is not None
    ranked = sorted(seconds)
    true = next(each for at, each in enumerate(ranked, 1) if at >= len(ranked) * share)
    assert true / 1.1 <= found <= true * 1.1


@pytest.mark.parametrize(("ms", "seconds"), [(10_003.0, 10), (240_000.0, 240), (20_000.0, 20), (3.0, 0.003)])
def test_equal_durations_have_matching_percentiles(ms: float, seconds: float) -> None:
    tally = RollupCells()
    for _ in range(44):
        tally.add(0, "tools/call", "slow", "ok", ms)
    (cell,) = tally.cells.values()
    for share in (0.5, 0.95):
        assert percentile(cell[FIRST_BUCKET:], share) == pytest.approx(seconds, rel=0.1)


def test_percentile_covers_extreme_durations() -> None:
    counts = [0] * (len(BOUNDS) + 1)
    assert percentile([*counts[:-1], 1], 0.5) == BOUNDS[-1] > 3_600
    assert percentile([1, *counts[1:]], 0.5) == pytest.approx(0.0005)


def test_tally_of_older_version_is_read_into_current_buckets() -> None:
    counts = list(range(1, len(OLDER) + 2))
    ((_, cell),) = read([[0, "ping", "", "ok", sum(counts), 0, 5.0, *counts]])
    assert sum(cell[FIRST_BUCKET:]) == cell[0] == sum(counts)
    assert cell[FIRST_BUCKET + bucket_of(17_000)] == counts[OLDER.index(30)]
    assert cell[FIRST_BUCKET + bucket_of(299_999)] == counts[-1]


def test_empty_histogram_has_no_percentile() -> None:
    assert percentile([0] * (len(BOUNDS) + 1), 0.5) is None
