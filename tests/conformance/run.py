"""Runs the official conformance suite against the fixture server, and its part for authorization servers.

``python -m tests.conformance.run``
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tests.clients import node
from tests.conformance import authorization
from tests.conformance.outcome import SKIPPED, Outcome, Run, details, without_colour
from tests.plugins.rerun import MOST_UNSTABLE
from tests.servers.live import LiveServer

BASELINE = Path(__file__).with_name("expected-failures.yml")
RUN_SECONDS = 150
# Run and reported by the suite but not scored; required here.
ALSO_REQUIRED = frozenset({"server-sse-polling", "json-schema-2020-12", "server-session-lifecycle"})
# Not scored by the suite, but sent by every modern client.
HEADERS = frozenset({"http-header-validation", "http-custom-header-server-validation", "server-stateless"})
# Extensions served here; the suite does not score them, and has no set that contains the skills.
TASKS = frozenset(
    f"tasks-{name}"
    for name in (
        "lifecycle",
        "capability-negotiation",
        "wire-fields",
        "request-state-removal",
        "mrtr-input",
        "request-headers",
        "dispatch-and-envelope",
        "status-notifications",
        "required-task-error",
        "mrtr-composition",
    )
)
SKILLS = ("sep-2640-skills-directory", "sep-2640-skills-enumeration", "sep-2640-skills-manifest")
RUNS = (
    Run("2025-06-18, all", ("--suite", "all", "--spec-version", "2025-06-18"),
        frozenset({"server-session-lifecycle"}), must_count=27),
    Run("2025-11-25, required", ("--requirements", "2025-11-25"), ALSO_REQUIRED, must_count=33),
    Run("2025-11-25, all", ("--suite", "all", "--spec-version", "2025-11-25"), ALSO_REQUIRED, must_count=33),
    Run("2026-07-28, required", ("--requirements", "2026-07-28"), HEADERS | TASKS, must_count=50),
    Run("2026-07-28, all", ("--suite", "all", "--spec-version", "2026-07-28"), HEADERS, must_count=40),
    *(Run(f"skills, {name}", ("--scenario", name), frozenset({name})) for name in SKILLS),
)  # fmt: skip


def execute(run: Run, url: str) -> Outcome:
    """Call the suite once; keep its whole output."""
    suite = node.install("conformance") / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    command = [node.executable(), str(suite), "server", "--url", url, *run.options,
               "--expected-failures", str(BASELINE)]  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="mcp-conformance-") as folder:
        command += ["--output-dir", folder]
        output, status = _call(command)
        return Outcome(run, output, status, tuple(details(Path(folder))))


def _call(command: list[str]) -> tuple[str, int]:
    """Return the suite's output and its exit status, 124 after a timeout."""
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, env=node.environment(),
                              timeout=RUN_SECONDS)  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"The suite did not end within {RUN_SECONDS} s.", 124
    return without_colour(done.stdout + done.stderr), done.returncode


def _word(name: str, passed: int, failed: int) -> str:
    if not (passed or failed) and name in SKIPPED:
        return "skipped"
    return "passed" if passed and not failed else "FAILED"


def report(outcomes: Iterable[Outcome], trouble: list[str]) -> int:
    """Print one line per scenario and the summary last; return the exit status."""
    passed = failed = 0
    for outcome in outcomes:
        print(f"\n{outcome.run.name}")
        for name, (good, bad) in sorted(outcome.scenarios.items()):
            print(f"  {_word(name, good, bad)}  {name} ({good} passed, {bad} failed)")
        for problem in (*outcome.problems, *outcome.details):
            print(f"  PROBLEM  {problem}")
        words = [_word(name, good, bad) for name, (good, bad) in outcome.scenarios.items()]
        bad_scenarios = words.count("FAILED")
        passed += words.count("passed")
        failed += max(bad_scenarios, len(outcome.problems))
    for line in trouble:
        print(f"  PROBLEM  in the server's log: {line}")
    failed += len(trouble)
    print(f"\nconformance: {passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


def main(arguments: list[str] | None = None) -> int:
    """Run the suite at every revision; return 0 only if everything ran and passed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--verbose", action="store_true", help="show the suite's own output")
    parser.add_argument("--processes", type=int, default=2, help="web processes of the fixture server")
    parser.add_argument("--rerun", action="store_true", help="run what failed once more, and name it")
    wanted = parser.parse_args(arguments)
    try:
        node.install("conformance")
        print(f"Node: {node.executable()}")
    except node.NodeUnavailable as missing:
        print(f"The conformance suite cannot run: {missing}", file=sys.stderr)
        return 2
    outcomes: list[Outcome] = []
    unstable: list[str] = []
    with LiveServer(wanted.processes, settings="tests.conformance.settings", worker=True) as server:
        # The suite's host check accepts this name only.
        url = f"http://localhost:{server.port}/mcp"
        for run in RUNS:
            outcomes.append(execute(run, url))
            if outcomes[-1].problems and wanted.rerun:
                unstable += unstable_lines(outcomes[-1])
                outcomes[-1] = execute(run, url)
            if wanted.verbose:
                print(outcomes[-1].output)
        trouble = server.trouble()
        if trouble:
            print(server.logs()[-8000:])
    with LiveServer(wanted.processes, env=authorization.GUARDED) as guarded:
        outcomes += authorization.outcomes(guarded)
        trouble += guarded.trouble()
    status = report(outcomes, trouble)
    print("\n".join(unstable))
    return status if len(unstable) <= MOST_UNSTABLE else 1


def unstable_lines(outcome: Outcome) -> list[str]:
    """Return lines about a run with problems that a second run decides."""
    return [f"unstable: {outcome.run.name}: {problem}" for problem in outcome.problems]


if __name__ == "__main__":
    sys.exit(main())
