"""Run failed tests once more, alone: the pytest plugin that notes them, and the program that judges it.

``pytest -p tests.plugins.rerun`` notes each failed test with the first line of its failure in pytest's cache.
``python -m tests.plugins.rerun FOLDER`` reads that cache and prints a line ``unstable: …`` for each of them;
its exit status is 0 when a second run of them may decide, 1 when it may not.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

MOST_UNSTABLE = 5
NOTES = "rerun/failures"
# This judges the messages of the whole run; the one test it is reported with is not its cause.
OF_THE_WHOLE_RUN = "Unpublished"
WIDTH = 160

_failures = pytest.StashKey[dict[str, str]]()


def pytest_configure(config: pytest.Config) -> None:
    """Begin with no failures."""
    config.stash[_failures] = {}
    config.pluginmanager.register(_Notes(config), "rerun-notes")


class _Notes:
    """Hooks that need the configuration; only the process that collects all reports writes."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.config.stash[_failures].setdefault(report.nodeid, _first_line(report))

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        # A run that was broken off did not say what else would have failed.
        ended = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        if ended and not hasattr(self.config, "workerinput") and self.config.cache is not None:
            self.config.cache.set(NOTES, self.config.stash[_failures])


def _first_line(report: Any) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr)
    return next((line.strip() for line in text.splitlines() if line.strip()), "no message")


def judge(folder: Path) -> tuple[list[str], bool]:
    """The lines that name what failed in a run, and whether a second run of it may decide.

    Not when nothing is noted (the run ended before its tests did), when too much failed, or when no single
    test can repeat what failed.
    """
    notes = folder / "v" / NOTES
    if not notes.exists():
        return [], False
    failures: dict[str, str] = json.loads(notes.read_text(encoding="utf-8"))
    lines = [f"unstable: {test} ({line[:WIDTH]})" for test, line in sorted(failures.items())]
    whole = any(OF_THE_WHOLE_RUN in line for line in failures.values())
    return lines, bool(lines) and not whole and len(lines) <= MOST_UNSTABLE


def main(arguments: list[str]) -> int:
    """Print the lines; the exit status says whether a second run may decide."""
    lines, may_decide = judge(Path(arguments[0]))
    print("\n".join(lines))
    return 0 if may_decide else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
