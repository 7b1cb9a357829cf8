"""The counted work of requests beside 1,000 rules and 200 toolsets, and beside 100 other servers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.samples.migrated import migrated

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
PATHS = {
    *("tools/call: short cut", "tools/call: ordinary", "tools/call with a context", "tools/list", "ping"),
    *("background call: accepted", "background call: worker"),
}
MOST = 1.05
# A timer that fires meanwhile, as on a busy machine, adds work from outside the path.
TRIES = 4

Counts = dict[str, dict[str, dict[str, int]]]


def counted(module: str, database: Path) -> tuple[Counts, str]:
    """Return the counts of a module of benchmarks, and the size of the catalogue in each state."""
    command = [sys.executable, "-m", module, "--json"]
    environment = {**os.environ, "MIGRATED": str(database)}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr
    found: Counts = json.loads(done.stdout.splitlines()[-1])
    return found, done.stderr


def added(found: Counts) -> list[str]:
    """Return what more than a twentieth was added to."""
    return [
        f"{path}, {state}: {work[kind]} {kind}, not {usual[kind]}"
        for path, states in found.items()
        for usual in [next(iter(states.values()))]
        for state, work in states.items()
        for kind in ("ours", "statements", "commands")
        if work[kind] > usual[kind] * MOST
    ]


@pytest.mark.parametrize(
    ("module", "state"),
    [
        ("benchmarks.limits.work", "two rules hold: 9 tools"),
        # Nobody calls the 5,000 tools. A page of tools/list has as many tools with them as without.
        ("benchmarks.relay.crowd", "100 servers: 5009 tools"),
    ],
)
def test_rows_for_others_add_at_most_a_twentieth_to_the_work_of_requests(
    module: str, state: str, tmp_path: Path
) -> None:
    """Count our functions, statements and commands. Calls of other functions vary with the event loop."""
    database = tmp_path / "migrated.sqlite3"
    database.write_bytes(migrated(ROOT, "mcpsite.settings"))
    more = ["no try"]
    for _ in range(TRIES):
        found, states = counted(module, database)
        assert state in states
        assert set(found) == PATHS
        more = added(found)
        if not more:
            return
    raise AssertionError("\n".join(more))
