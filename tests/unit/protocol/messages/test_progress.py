from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_app.protocol.errors import InvalidParams
from mcp_app.protocol.messages.progress import (
    MAX_TOKEN,
    ProgressGate,
    check_progress_token,
    only_waits,
    waiting_progress,
)


@pytest.mark.requirement("META-11", "PROG-01")
@pytest.mark.parametrize("token", ["", "a", "1", 0, 1, -5, 2**53 - 1, "x" * MAX_TOKEN])
def test_string_or_integer_token_is_accepted_unchanged(token: str | int) -> None:
    assert check_progress_token(token) is token


@pytest.mark.requirement("META-11")
@pytest.mark.parametrize("token", [None, 1.5, 1.0, True, {}, [], 2**53, "x" * (MAX_TOKEN + 1)])
def test_invalid_token_is_rejected(token: object) -> None:
    with pytest.raises(InvalidParams):
        check_progress_token(token)


@pytest.mark.requirement("PROG-02")
def test_only_greater_progress_is_sent() -> None:
    gate = ProgressGate(0)
    offered = [gate.offer(value, None, None, now) for now, value in enumerate([10, 10, 5, 10.5, 11])]
    assert offered == [{"progress": 10}, None, None, {"progress": 10.5}, {"progress": 11}]


def test_total_and_message_are_included_if_given() -> None:
    assert ProgressGate(1).offer(0, 3, "go", 0) == {"progress": 0, "total": 3, "message": "go"}


@pytest.mark.requirement("PROG-04")
def test_frequent_reports_are_coalesced_to_newest() -> None:
    gate = ProgressGate(1, burst=1)
    assert gate.offer(1, None, None, 5.0) == {"progress": 1}
    assert gate.offer(2, None, "two", 5.25) is None
    assert gate.offer(3, None, "three", 5.5) is None
    assert gate.held
    assert gate.offer(4, None, None, 6.0) == {"progress": 4}
    assert not gate.held
    assert gate.flush() is None


@pytest.mark.requirement("PROG-04")
def test_burst_of_reports_is_sent() -> None:
    gate = ProgressGate(1, burst=3)
    sent = [gate.offer(number, None, None, 0) is not None for number in range(5)]
    assert sent == [True, True, True, False, False]
    assert gate.offer(9, None, None, 1) == {"progress": 9}
    assert gate.offer(10, None, None, 1.5) is None


@pytest.mark.requirement("PROG-04")
def test_greatest_held_report_is_flushed() -> None:
    gate = ProgressGate(10, burst=1)
    gate.offer(1, None, None, 0)
    gate.offer(2, 2, "done", 1)
    gate.offer(1.5, 2, "late", 2)
    assert gate.flush() == {"progress": 2, "total": 2, "message": "done"}
    assert gate.flush() is None


def test_flush_with_time_counts_against_rate() -> None:
    gate = ProgressGate(8, burst=1)
    gate.offer(1, None, None, 0)
    gate.offer(2, None, None, 4)
    assert gate.flush(8) == {"progress": 2}
    assert gate.offer(3, None, None, 12) is None
    assert gate.offer(4, None, None, 16) == {"progress": 4}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True, "1", None])
def test_non_finite_progress_raises_value_error(value: Any) -> None:
    with pytest.raises(ValueError, match="progress must be a finite number"):
        ProgressGate(0).offer(value, None, None, 0)
    if value is not None:
        with pytest.raises(ValueError, match="total must be a finite number"):
            ProgressGate(0).offer(1, value, None, 0)


@pytest.mark.requirement("PROG-02", "PROG-04")
@given(st.lists(st.tuples(st.integers(0, 20), st.floats(0, 1)), max_size=20), st.integers(1, 3))
def test_sent_progress_increases_and_ends_with_greatest(reports: list[tuple[int, float]], burst: int) -> None:
    gate, now, sent = ProgressGate(0.5, burst), 0.0, []
    for progress, pause in reports:
        now += pause
        if params := gate.offer(progress, None, None, now):
            sent.append(params["progress"])
    assert len(sent) <= burst + now / 0.5 + 1e-6
    if params := gate.flush():
        sent.append(params["progress"])
    assert sent == sorted(set(sent))
    assert sent[-1:] == ([max(progress for progress, _ in reports)] if reports else [])


def test_progress_after_waiting_increases_from_zero_report() -> None:
    waited = waiting_progress(3600)
    assert waiting_progress(0) > 0
    gate = ProgressGate(0, above=waited)
    reports = [gate.offer(value, 3, None, 0.0) for value in (0, 0, 1, 0.5, 3)]
    numbers = [None if report is None else report["progress"] for report in reports]
    assert numbers[0] is not None
    assert waited < numbers[0] < 0.001
    assert numbers[1:] == [None, 1, None, 3]


@pytest.mark.parametrize(
    ("value", "waits"), [(0, False), (1e-9, True), (86_400e-9, True), (0.01, False), (-1, False)]
)
def test_only_waits_separates_waiting_progress_from_work(value: float, waits: bool) -> None:
    assert only_waits(value) is waits
