"""The checker finds every planted fault, and nothing in a run without one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.chaos.checker import KINDS, Checker, Promise
from tests.chaos.history import History, Seen
from tests.ledger_app.ledger import Line

pytestmark = pytest.mark.quick


def good() -> tuple[list[Seen], list[Line]]:
    """Return two calls of three steps each, observed completely."""
    seen: list[Seen] = []
    lines: list[Line] = []
    for nonce, run in (("a", "r1"), ("b", "r2")):
        seen.append(Seen(nonce, "accepted", 0.0))
        lines.append(Line(0.1, nonce, "start", run, 1))
        for step in (1, 2, 3):
            lines.append(Line(float(step), nonce, "alive", run, 1, step))
            seen.append(
                Seen(
                    nonce, "message", step + 0.1, about=nonce, run=run, number=step, event_id=f"{nonce}{step}"
                )
            )
            seen.append(Seen(nonce, "progress", step + 0.2, number=step, event_id=f"{nonce}p{step}"))
        lines.append(Line(4.0, nonce, "end", run, 1))
        seen.append(Seen(nonce, "answer", 4.1, about=nonce, run=run, number=3, event_id=f"{nonce}9"))
    return seen, lines


def found(seen: list[Seen], lines: list[Line], **promise: object) -> set[str]:
    history = History(seen)
    checker = Checker(history, lines, Promise(**promise))  # type: ignore[arg-type]
    return {violation.kind for violation in checker.violations()}


def test_faultless_run_has_no_violation() -> None:
    assert found(*good()) == set()


SEEN_FAULTS = {
    "unanswered": lambda seen: seen[:7] + seen[8:],
    "double terminal": lambda seen: [*seen, replace(seen[7], event_id="other", at=5.0)],
    "lost": lambda seen: [
        each for each in seen if (each.nonce, each.kind, each.number) != ("a", "message", 2)
    ],
    "duplicate": lambda seen: [*seen[:3], replace(seen[1], event_id="new"), *seen[3:]],
    "reordered": lambda seen: [seen[0], seen[3], seen[2], seen[1], *seen[4:]],
    "phantom": lambda seen: [*seen[:7], replace(seen[5], number=4, event_id="x"), *seen[7:]],
    "foreign": lambda seen: [*seen[:7], replace(seen[9], nonce="a", event_id="x"), *seen[7:]],
    "after terminal": lambda seen: [*seen, Seen("a", "progress", 9.0, number=4, event_id="x")],
}


@pytest.mark.parametrize("kind", SEEN_FAULTS)
def test_fault_in_client_history_is_found(kind: str) -> None:
    seen, lines = good()
    assert kind in found(SEEN_FAULTS[kind](seen), lines)


def test_reordered_progress_is_found() -> None:
    seen, lines = good()
    seen[4], seen[6] = seen[6], seen[4]
    assert found(seen, lines) == {"reordered"}


def test_event_delivered_twice_is_found() -> None:
    seen, lines = good()
    assert found([*seen[:3], seen[2], *seen[3:]], lines) >= {"duplicate"}


def test_messages_of_earlier_run_within_later_run_are_found() -> None:
    seen, lines = good()
    later = [replace(line, run="r9") for line in lines if line.nonce == "a"]
    seen[3] = replace(seen[3], run="r9", number=1)
    assert "reordered" in found(seen, [*lines, *later], most_starts=2)


def test_answer_without_last_step_is_loss() -> None:
    seen, lines = good()
    shorter = [each for each in seen if (each.nonce, each.kind, each.number) != ("a", "message", 3)]
    assert found(shorter, lines) == {"lost"}
    assert found(shorter, lines, complete=False) == set()


def test_second_start_is_found_unless_allowed() -> None:
    seen, lines = good()
    lines.append(Line(2.0, "a", "start", "r3", 1))
    assert found(seen, lines) == {"started too often"}
    assert found(seen, lines, most_starts=2) == set()


def test_work_after_cancel_is_found_only_beyond_bound() -> None:
    seen, lines = good()
    seen.append(Seen("a", "cancel", 1.0))
    assert found(seen, lines, stops_within=1.5) == {"running after cancel"}
    assert found(seen, lines, stops_within=3.5) == set()


def test_every_kind_has_planted_fault() -> None:
    assert {*SEEN_FAULTS, "started too often", "running after cancel"} == set(KINDS)
