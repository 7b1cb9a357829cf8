"""How checks are run: each within its time, none brings the others down, no secret comes out."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import partial

import pytest

from mcp_app.doctor import Finding, Installation, Level, examine
from mcp_app.doctor.examination import Area, Check
from mcp_app.doctor.finding import error, ok, skipped
from mcp_app.egress import EgressFailed
from mcp_app.streams import StreamsUnavailable

HERE = Installation()


def fine(_: Installation) -> Iterator[Finding]:
    yield ok("area.fine", "well")


def broken(_: Installation) -> Iterator[Finding]:
    yield error("area.broken", "not well", "Mend it.")


def absent(_: Installation) -> Iterator[Finding]:
    yield skipped("area.absent", "nothing to look at")


def away(_: Installation) -> Iterator[Finding]:
    raise StreamsUnavailable("no answer from redis://:hunter2@host:6379/0")


def unreachable(_: Installation) -> Iterator[Finding]:
    raise EgressFailed("No connection to https://ada:hunter2@host/")


def seen(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.check, finding.level) for finding in findings]


@pytest.mark.parametrize(
    ("gate", "expected"),
    [
        (None, [("area.fine", "ok")]),
        (fine, [("area.fine", "ok"), ("area.fine", "ok")]),
        (broken, [("area.broken", "error"), ("area.others", "skipped")]),
        (absent, [("area.absent", "skipped")]),
    ],
)
def test_an_area_is_looked_at_only_behind_an_open_gate(
    gate: Check | None, expected: list[tuple[str, str]]
) -> None:
    assert seen(examine(HERE, [Area("area", (fine,), gate)])) == expected


def test_a_check_that_hangs_is_an_error_in_time_and_the_others_are_told() -> None:
    never = threading.Event()

    def hangs(_: Installation) -> Iterator[Finding]:
        never.wait(30)
        yield ok("area.hangs", "too late")

    begun = time.monotonic()
    found = examine(HERE, [Area("area", (hangs, fine), seconds=0.1), Area("next", (fine,))])
    never.set()
    assert time.monotonic() - begun < 10
    assert seen(found) == [("area.hangs", "error"), ("area.fine", "ok"), ("area.fine", "ok")]


@pytest.mark.parametrize("check", [away, unreachable])
def test_what_is_out_of_reach_is_an_error_with_a_remedy_and_without_the_password(check: Check) -> None:
    (found,) = examine(HERE, [Area("area", (check,))])
    assert found.level == Level.ERROR
    assert found.remedy
    assert "hunter2" not in found.text


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_fault_of_a_check_is_told_and_stops_no_other() -> None:
    def faulty(_: Installation) -> Iterator[Finding]:
        raise ZeroDivisionError

    found = examine(HERE, [Area("area", (faulty, fine))])
    assert seen(found) == [("area.faulty", "error"), ("area.fine", "ok")]


def test_an_installation_is_not_printed_with_its_secrets() -> None:
    shown = repr(Installation("redis://:hunter2@host", "http://host", "hunter2"))
    assert "hunter2" not in shown


@pytest.mark.parametrize("make", [partial(ok, "a.b"), partial(skipped, "a.b")])
def test_a_finding_is_one_line(make: partial[Finding]) -> None:
    assert make("one\n  two").text == "one two"
