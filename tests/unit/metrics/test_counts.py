"""Request counts of one process."""

from __future__ import annotations

import pytest

from mcp_app.conf import Settings
from mcp_app.handlers.table import by_version
from mcp_app.metrics.counts import BUCKETS, Counts
from mcp_app.protocol.features.subscriptions import METHOD as LISTEN
from mcp_app.protocol.messages.methods import METHODS, REQUESTS


def test_every_served_method_is_counted_by_name() -> None:
    methods = by_version(Settings(redis_url="redis://nowhere.invalid")).values()
    assert {"initialize", LISTEN}.union(*methods) <= METHODS


def test_every_request_of_the_protocol_is_served_at_some_revision() -> None:
    methods = by_version(Settings(redis_url="redis://nowhere.invalid")).values()
    assert {"initialize", LISTEN}.union(*methods) >= REQUESTS


@pytest.mark.parametrize(
    ("seconds", "bucket"),
    [(0, 0), (0.0005, 0), (0.00051, 1), (1, 10), (300, len(BUCKETS) - 1), (301, len(BUCKETS))],
)
def test_duration_is_counted_in_first_matching_bucket(seconds: float, bucket: int) -> None:
    counts = Counts()
    counts.done("tools/call", "ok", "echo", seconds)
    assert ("bucket ", "echo", f" {bucket}", 1) in counts.take()


def test_take_resets_counts() -> None:
    counts = Counts()
    for _ in range(3):
        counts.done("ping", "ok", "", 0.1)
    assert counts.take() == [("request ", "", "ping ok", 3)]
    assert counts.take() == []
    counts.done("ping", "ok", "", 0.1)
    assert counts.take() == [("request ", "", "ping ok", 1)]


def test_outcomes_of_tool_share_one_histogram() -> None:
    counts = Counts()
    counts.done("tools/call", "ok", "echo", 0.25)
    counts.done("tools/call", "error", "echo", 0.5)
    found = counts.take()
    assert ("microseconds ", "echo", " sum", 750_000) in found
    assert {after for before, _, after, _ in found if before == "tool "} == {" ok", " error"}


def test_unknown_methods_share_one_key() -> None:
    counts = Counts()
    for number in range(1_000):
        counts.done(f"made up {number}", "error", "", 0.1)
    assert counts.take() == [("request ", "", "other error", 1_000)]
