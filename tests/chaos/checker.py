"""Judges a run by what clients received and tools recorded; independent of the server's design."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tests.chaos.history import History, Seen
from tests.ledger_app.ledger import Line


@dataclass(frozen=True)
class Violation:
    """A broken promise; ``kind`` is one of the names in ``KINDS``."""

    kind: str
    nonce: str
    detail: str


KINDS = (
    "unanswered",
    "double terminal",
    "lost",
    "duplicate",
    "reordered",
    "phantom",
    "foreign",
    "after terminal",
    "started too often",
    "running after cancel",
)


@dataclass(frozen=True)
class Promise:
    """Expectations of a call. ``complete``: no step was dropped or cut off by a loss of the log."""

    most_starts: int = 1
    stops_within: float | None = None
    complete: bool = True
    steps: int | None = None


@dataclass
class Checker:
    """A judge with ``promises`` by nonce; other calls get ``usual``."""

    history: History
    ledger: Sequence[Line]
    usual: Promise = field(default_factory=Promise)
    promises: dict[str, Promise] = field(default_factory=dict)

    def violations(self) -> list[Violation]:
        """Return all violations."""
        return [violation for nonce in self._nonces() for violation in self._of(nonce)]

    def _nonces(self) -> list[str]:
        return list(dict.fromkeys([*self.history.nonces, *(line.nonce for line in self.ledger)]))

    def _of(self, nonce: str) -> Iterator[Violation]:
        seen = self.history.of(nonce)
        lines = [line for line in self.ledger if line.nonce == nonce]
        promise = self.promises.get(nonce, self.usual)
        for kind, detail in (
            *_answers(seen),
            *_strangers(nonce, seen, lines),
            *_order(seen),
            *_gaps(seen, promise),
            *_starts(lines, promise),
            *_stopping(seen, lines, promise),
        ):
            yield Violation(kind, nonce, detail)


Finding = tuple[str, str]


def _terminals(seen: list[Seen]) -> list[Seen]:
    return [each for each in seen if each.kind in ("answer", "error")]


def _messages(seen: list[Seen]) -> list[Seen]:
    return [each for each in seen if each.kind in ("message", "progress")]


def _answers(seen: list[Seen]) -> Iterator[Finding]:
    terminals = _terminals(seen)
    if any(each.kind == "accepted" for each in seen) and not terminals:
        yield "unanswered", f"{len(seen)} facts, last: {seen[-1]}"
    if len(terminals) > 1:
        yield "double terminal", f"{terminals}"
    if terminals:
        first = seen.index(terminals[0])
        for each in _messages(seen[first:]):
            yield "after terminal", f"{each}"


def _strangers(nonce: str, seen: list[Seen], lines: list[Line]) -> Iterator[Finding]:
    said = {(line.run, line.number) for line in lines}
    for each in seen:
        if each.about and each.about != nonce:
            yield "foreign", f"{each}"
        elif each.kind == "message" and (each.run, each.number) not in said:
            yield "phantom", f"{each} was never said"
    for each in _terminals(seen):
        if each.kind == "answer" and each.run and each.run not in {line.run for line in lines}:
            yield "phantom", f"{each} answers for a run that never was"


def _order(seen: list[Seen]) -> Iterator[Finding]:
    messages = [each for each in seen if each.kind == "message"]
    runs: list[str] = []
    for each in messages:
        if each.run in runs and each.run != runs[-1]:
            yield "reordered", f"{each} of an earlier run among those of a later one"
        if each.run not in runs:
            runs.append(each.run)
    for run in runs:
        numbers = [each.number for each in messages if each.run == run]
        for number in sorted({number for number in numbers if numbers.count(number) > 1}):
            yield "duplicate", f"step {number:g} of run {run}"
        if sorted(numbers) != numbers and len(set(numbers)) == len(numbers):
            yield "reordered", f"steps of run {run}: {numbers}"
    progress = [each.number for each in seen if each.kind == "progress"]
    if any(after <= before for before, after in pairwise(progress)):
        yield "reordered", f"progress goes back: {progress}"
    ids = [each.event_id for each in seen if each.event_id]
    for event_id in sorted({each for each in ids if ids.count(each) > 1}):
        yield "duplicate", f"event {event_id}"


def _gaps(seen: list[Seen], promise: Promise) -> Iterator[Finding]:
    if not promise.complete:
        return
    runs: dict[str, list[float]] = {}
    for each in seen:
        if each.kind == "message":
            runs.setdefault(each.run, []).append(each.number)
    for run, numbers in runs.items():
        if missing := set(range(1, int(max(numbers)) + 1)) - set(numbers):
            yield "lost", f"steps {sorted(missing)} of run {run}"
    for answer in _terminals(seen):
        if answer.kind == "answer" and answer.number and max(runs.get(answer.run, [0])) < answer.number:
            yield "lost", f"the last of {answer.number:g} steps of run {answer.run}"


def _starts(lines: list[Line], promise: Promise) -> Iterator[Finding]:
    starts = sum(line.what == "start" for line in lines)
    if starts > promise.most_starts:
        yield "started too often", f"{starts} starts, {promise.most_starts} allowed"


def _stopping(seen: list[Seen], lines: list[Line], promise: Promise) -> Iterator[Finding]:
    cancels = [each.at for each in seen if each.kind == "cancel"]
    if promise.stops_within is None or not cancels:
        return
    latest = cancels[0] + promise.stops_within
    if late := [line for line in lines if line.at > latest]:
        yield "running after cancel", f"{late[-1].what} {late[-1].at - cancels[0]:.1f} s after it"
