"""Running of checks: time limits, isolation of failures, no secrets in output."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import partial

import pytest

from mcp_app.doctor import Busy, Finding, Installation, Level, examination, examine, examine_alone
from mcp_app.doctor.examination import AREAS, Area, Check
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
def test_area_is_examined_only_if_gate_passes(gate: Check | None, expected: list[tuple[str, str]]) -> None:
    assert seen(examine(HERE, [Area("area", (fine,), gate)])) == expected


def test_hanging_check_is_error_and_others_are_reported() -> None:
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
def test_unreachable_service_is_error_with_remedy_and_without_password(check: Check) -> None:
    (found,) = examine(HERE, [Area("area", (check,))])
    assert found.level == Level.ERROR
    assert found.remedy
    assert "hunter2" not in found.text


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_exception_in_check_is_error_and_others_run() -> None:
    def faulty(_: Installation) -> Iterator[Finding]:
        raise ZeroDivisionError

    found = examine(HERE, [Area("area", (faulty, fine))])
    assert seen(found) == [("area.faulty", "error"), ("area.fine", "ok")]


def test_installation_repr_hides_secrets() -> None:
    shown = repr(Installation("redis://:hunter2@host", "http://host", "hunter2"))
    assert "hunter2" not in shown


@pytest.mark.parametrize("make", [partial(ok, "a.b"), partial(skipped, "a.b")])
def test_finding_text_is_one_line(make: partial[Finding]) -> None:
    assert make("one\n  two").text == "one two"


def test_code_area_allows_30_seconds_for_slow_url_loading() -> None:
    # NetBox took 7 seconds on an idle core and was reported as a lock or a firewall.
    (area,) = (area for area in AREAS if area.name == "code")
    assert area.seconds >= 30


def test_examination_ends_in_time_and_names_unfinished_area() -> None:
    never = threading.Event()

    def hangs(_: Installation) -> Iterator[Finding]:
        never.wait(30)
        yield ok("slow.hangs", "too late")

    areas = [Area("slow", (hangs,), seconds=20), Area("area", (fine,))]
    begun = time.monotonic()
    found = examine(HERE, areas, 3.0)
    never.set()
    assert time.monotonic() - begun < 15
    assert seen(found) == [("slow.others", "error"), ("area.fine", "ok")]
    assert found[0].remedy


def test_concurrent_examination_raises_busy() -> None:
    go_on, begun = threading.Event(), threading.Event()

    def waits(_: Installation) -> Iterator[Finding]:
        begun.set()
        go_on.wait(30)
        yield ok("area.waits", "at last")

    first = threading.Thread(target=examine_alone, args=(HERE, 20.0, [Area("area", (waits,))]))
    first.start()
    assert begun.wait(10)
    with pytest.raises(Busy):
        examine_alone(HERE, 1.0, [Area("area", (fine,))])
    go_on.set()
    first.join(20)
    assert seen(examine_alone(HERE, 10.0, [Area("area", (fine,))])) == [("area.fine", "ok")]


def test_hanging_threads_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "MAX_ABANDONED", 3)
    never = threading.Event()

    def hangs(_: Installation) -> Iterator[Finding]:
        never.wait(30)
        yield ok("area.hangs", "too late")

    def refused() -> bool:
        try:
            examine_alone(HERE, 0.05, [Area("area", (hangs,), seconds=0.05)])
        except Busy:
            return True
        return False

    try:
        assert any(refused() for _ in range(10))
    finally:
        never.set()
