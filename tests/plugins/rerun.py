"""Rerun failed tests once, alone: a pytest plugin that records them, and a program that evaluates them.

``pytest -p tests.plugins.rerun`` stores each failed test with the first line of its failure in pytest's
cache. ``python -m tests.plugins.rerun FOLDER`` reads that cache and prints a line ``unstable: …`` for
each of them; its exit status is 0 if a second run may decide, else 1.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

MOST_UNSTABLE = 5
NOTES = "rerun/failures"
# This check covers the messages of the entire run; the test it is reported with is not its cause.
OF_THE_WHOLE_RUN = "Unpublished"
WIDTH = 160

_failures = pytest.StashKey[dict[str, str]]()


def pytest_configure(config: pytest.Config) -> None:
    """Start with no failures."""
    config.stash[_failures] = {}
    config.pluginmanager.register(_Notes(config), "rerun-notes")


class _Notes:
    """Hooks that need the configuration. Only the process that collects all reports writes."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.config.stash[_failures].setdefault(report.nodeid, _first_line(report))

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        # An interrupted run has not reported all failures.
        ended = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        if ended and not hasattr(self.config, "workerinput") and self.config.cache is not None:
            self.config.cache.set(NOTES, self.config.stash[_failures])


def _first_line(report: Any) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr)
    return next((line.strip() for line in text.splitlines() if line.strip()), "no message")


def judge(folder: Path) -> tuple[list[str], bool]:
    """Return the lines that name the failed tests, and True if a second run may decide.

    False if no failure is recorded (the run ended before its tests did), if too many tests failed, or
    if no single test can reproduce the failure.
    """
    notes = folder / "v" / NOTES
    if not notes.exists():
        return [], False
    failures: dict[str, str] = json.loads(notes.read_text(encoding="utf-8"))
    lines = [f"unstable: {test} ({line[:WIDTH]})" for test, line in sorted(failures.items())]
    whole = any(OF_THE_WHOLE_RUN in line for line in failures.values())
    return lines, bool(lines) and not whole and len(lines) <= MOST_UNSTABLE


def main(arguments: list[str]) -> int:
    """Print the lines and return the exit status: 0 if a second run may decide."""
    lines, may_decide = judge(Path(arguments[0]))
    print("\n".join(lines))
    return 0 if may_decide else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
