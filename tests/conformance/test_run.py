"""The conformance runner fails on missing, failed and unexpectedly passed scenarios."""

from __future__ import annotations

import pytest
import yaml
from django.conf import settings

from tests.conformance import run
from tests.conformance.outcome import Outcome, Run

GOOD = "✓ ping: 2 passed, 0 failed\n✓ tools-list: 3 passed, 0 failed\n"
RUN = Run("a run", (), frozenset({"ping"}), must_count=2)


def test_run_with_all_checks_passed_has_no_problem() -> None:
    assert Outcome(RUN, GOOD, exit_status=0).problems == []


@pytest.mark.parametrize(
    ("output", "exit_status", "problem"),
    [
        (GOOD.replace("0 failed\n✓ tools", "1 failed\n✓ tools"), 1, "ping: 1 checks failed"),
        (GOOD.replace("ping: 2 passed", "ping: 0 passed"), 0, "ping: no check passed"),
        (GOOD.replace("ping", "pong"), 0, "ping: did not run"),
        ("✓ ping: 2 passed, 0 failed\n", 0, "only 1 scenarios ran, 2 are required"),
        (GOOD, 3, "the suite ended with status 3"),
        (GOOD + "\nUnexpected failures (not in baseline):\n  ✗ ping\n", 1, "ping: against the baseline"),
        (GOOD + "\nStale baseline entries (now passing):\n  ✓ ping\n", 1, "ping: against the baseline"),
    ],
)
def test_anything_but_clean_pass_is_problem(output: str, exit_status: int, problem: str) -> None:
    assert problem in Outcome(RUN, output, exit_status).problems


def test_summary_line_counts_every_problem(capsys: pytest.CaptureFixture[str]) -> None:
    bad = Outcome(RUN, GOOD.replace("ping", "pong"), exit_status=0)
    assert run.report([bad], ["Traceback (most recent call last):"]) == 1
    assert capsys.readouterr().out.strip().splitlines()[-1] == "conformance: 2 passed, 2 failed"


def alone(checks: str) -> Outcome:
    output = f"Running client scenario 'sep-2640-x' against server: http://localhost\nChecks:\n{checks}\n"
    return Outcome(Run("alone", (), frozenset({"sep-2640-x"})), output, exit_status=0)


def test_individually_run_scenario_is_judged_alike() -> None:
    assert alone("Passed: 6/6, 0 failed, 0 warnings").problems == []
    assert alone("Passed: 6/7, 1 failed, 0 warnings").problems == ["sep-2640-x: 1 checks failed"]
    assert alone("Passed: 6/7, 0 failed, 1 warnings").problems == ["sep-2640-x: 1 checks failed"]
    assert alone("Passed: 0/0, 0 failed, 0 warnings").problems == ["sep-2640-x: no check passed"]
    assert "sep-2640-x: did not run" in alone("").problems


@pytest.mark.requirement("CONF-01")
def test_baseline_of_expected_failures_is_empty() -> None:
    assert yaml.safe_load(run.BASELINE.read_text(encoding="utf-8")) == {"server": []}


@pytest.mark.requirement("CONF-01", "EXT-02")
def test_runner_covers_all_revisions_and_unscored_scenarios() -> None:
    options = [set(item.options) for item in run.RUNS]
    assert {"--suite", "all", "--spec-version", "2025-06-18"} in options
    assert {"--suite", "all", "--spec-version", "2025-11-25"} in options
    assert {"--requirements", "2025-11-25"} in options
    assert {"--suite", "all", "--spec-version", "2026-07-28"} in options
    assert {"--requirements", "2026-07-28"} in options
    assert all(item.must_run >= run.ALSO_REQUIRED for item in run.RUNS[1:3])
    assert all(item.must_run >= run.HEADERS for item in run.RUNS[3:5])
    assert run.RUNS[3].must_run >= run.TASKS
    assert len(run.TASKS) == 10
    assert [item.must_run for item in run.RUNS[5:]] == [{name} for name in run.SKILLS]
    assert [item.options for item in run.RUNS[5:]] == [("--scenario", name) for name in run.SKILLS]


def test_skipped_scenario_is_neither_passed_nor_failed() -> None:
    skipped = Outcome(RUN, GOOD + "✓ tasks-status-notifications: 0 passed, 0 failed\n", exit_status=0)
    assert skipped.problems == []
    assert run.report([skipped], []) == 0


@pytest.mark.requirement("CONF-04")
def test_fixture_app_is_not_installed() -> None:
    assert not [name for name in settings.INSTALLED_APPS if name.startswith("tests.")]
