"""The result of one call of the suite, and the reasons it does not count as passed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# The suite always reports these as skipped.
SKIPPED = frozenset({"tasks-status-notifications"})
SUMMARY = re.compile(
    r"^[✓✗] (?P<scenario>[\w-]+): (?P<passed>\d+) passed, (?P<failed>\d+) failed$", re.MULTILINE
)
# The suite's output for a scenario run individually.
ALONE = re.compile(
    r"^Running client scenario '(?P<scenario>[\w-]+)'.*?"
    r"^Passed: (?P<passed>\d+)/\d+, (?P<failed>\d+) failed, (?P<warned>\d+) warnings$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Run:
    """One call of the suite, and the scenarios that must have passed at least one check in it.

    Against a baseline the suite counts a warning as a failure; without one, this class does.
    """

    name: str
    options: tuple[str, ...]
    must_run: frozenset[str] = frozenset()
    must_count: int = 1
    has_baseline: bool = True


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one suite run: check counts per scenario and its problems."""

    run: Run
    output: str
    exit_status: int
    details: tuple[str, ...] = ()

    @property
    def scenarios(self) -> dict[str, tuple[int, int]]:
        """Return (passed, failed) checks by scenario; a warning of an individual run is a failure."""
        alone = {
            found["scenario"]: (int(found["passed"]), int(found["failed"]) + int(found["warned"]))
            for found in ALONE.finditer(self.output)
        }
        return alone | {
            found["scenario"]: (int(found["passed"]), int(found["failed"]))
            for found in SUMMARY.finditer(self.output)
        }

    @property
    def problems(self) -> list[str]:
        """Return all reasons why this run does not count as passed; empty if it does."""
        found = [f"{name}: {failed} checks failed" for name, (_, failed) in self.scenarios.items() if failed]
        empty = [name for name, (passed, _) in self.scenarios.items() if not passed and name not in SKIPPED]
        found += [f"{name}: no check passed" for name in empty]
        found += [f"{name}: did not run" for name in sorted(self.run.must_run - set(self.scenarios))]
        if len(self.scenarios) < self.run.must_count:
            found.append(f"only {len(self.scenarios)} scenarios ran, {self.run.must_count} are required")
        named = {problem.split(":")[0] for problem in found}
        found += [f"{name}: against the baseline" for name in _unexpected(self.output) if name not in named]
        if not (found or self.run.has_baseline):
            found += self.details
        if self.exit_status and not found:
            found.append(f"the suite ended with status {self.exit_status}")
        return found


def _unexpected(output: str) -> list[str]:
    """Return scenarios listed as failed or passed against the baseline; warnings count as failed."""
    listed = re.search(r"(?:Unexpected failures|Stale baseline)[^\n]*\n((?:\s+[✗✓] [^\n]+\n?)+)", output)
    return [line.strip(" ✗✓") for line in listed[1].splitlines()] if listed else []


def details(folder: Path) -> Iterator[str]:
    """Return one line for each failed or warned check."""
    for file in sorted(folder.rglob("checks.json")):
        for check in json.loads(file.read_text(encoding="utf-8")):
            if check["status"] in ("FAILURE", "WARNING"):
                said = f"{check['status']}: {check.get('errorMessage')}"
                yield f"{file.parent.name}: {check['id']} {said} {json.dumps(check.get('details'))[:1500]}"


def without_colour(text: str) -> str:
    """Return text without terminal colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)
