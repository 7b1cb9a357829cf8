"""Counting requests in one process."""

from __future__ import annotations

import pytest

from mcp_app.conf import Settings
from mcp_app.handlers.table import by_version
from mcp_app.metrics.counts import BUCKETS, Counts
from mcp_app.protocol.features.subscriptions import METHOD as LISTEN
from mcp_app.protocol.messages.methods import METHODS, REQUESTS


def test_every_method_that_is_served_is_counted_by_its_name() -> None:
    methods = by_version(Settings(redis_url="redis://nowhere.invalid")).values()
    assert {"initialize", LISTEN}.union(*methods) <= METHODS


def test_every_request_of_the_protocol_is_served_at_some_revision() -> None:
    methods = by_version(Settings(redis_url="redis://nowhere.invalid")).values()
    assert {"initialize", LISTEN}.union(*methods) >= REQUESTS


@pytest.mark.parametrize(
    ("seconds", "bucket"),
    [(0, 0), (0.0005, 0), (0.00051, 1), (1, 10), (300, len(BUCKETS) - 1), (301, len(BUCKETS))],
)
def test_a_duration_counts_in_the_first_bucket_that_holds_it(seconds: float, bucket: int) -> None:
    counts = Counts()
    counts.done("tools/call", "ok", "echo", seconds)
    assert ("bucket ", "echo", f" {bucket}", 1) in counts.take()


def test_what_was_taken_is_not_counted_again() -> None:
    counts = Counts()
    for _ in range(3):
        counts.done("ping", "ok", "", 0.1)
    assert counts.take() == [("request ", "", "ping ok", 3)]
    assert counts.take() == []
    counts.done("ping", "ok", "", 0.1)
    assert counts.take() == [("request ", "", "ping ok", 1)]


def test_outcomes_of_a_tool_share_one_histogram() -> None:
    counts = Counts()
    counts.done("tools/call", "ok", "echo", 0.25)
    counts.done("tools/call", "error", "echo", 0.5)
    found = counts.take()
    assert ("microseconds ", "echo", " sum", 750_000) in found
    assert {after for before, _, after, _ in found if before == "tool "} == {" ok", " error"}


def test_methods_nobody_serves_are_one_key_however_many_there_are() -> None:
    counts = Counts()
    for number in range(1_000):
        counts.done(f"made up {number}", "error", "", 0.1)
    assert counts.take() == [("request ", "", "other error", 1_000)]
