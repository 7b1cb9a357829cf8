"""Each check of calls is made in ``execution/admission`` alone, so that no second copy can drift."""

from __future__ import annotations

import re

import pytest

from tests.architecture.source import ROOT, SOURCES, name_of

GATE = "mcp_app/execution/admission/"
# By the code that a check needs: other places that use it, with the reason.
CHECKS = {
    r"\bentry\.check\(": {},
    r"\bmax_running_calls_per_principal\b": {
        "mcp_app/conf.py": "the setting",
        "mcp_app/execution/calls/calls.py": "hands it to the gate, for requests of every kind",
    },
    r"\bmax_open_background_calls_per_principal\b": {"mcp_app/conf.py": "the setting"},
    r"\bmax_waiting_approvals_per_principal\b": {
        "mcp_app/conf.py": "the setting",
        "mcp_app/execution/background/service.py": "hands it to the gate, within a transaction",
        "mcp_app/execution/services.py": "hands it to the gate, within a transaction",
    },
    r"(?<!\.)\bquota\.admit(_now)?\(|\bsessions\.quota import .*\badmit(_now)?\b": {
        "mcp_app/dispatcher.py": "requests that can be answered only on a stored stream",
        "mcp_app/execution/background/task_results.py": "streams of clients that wait for a task",
        "mcp_app/execution/calls/reply.py": "streams of running calls",
        "mcp_app/sessions/open_sessions.py": "sessions",
    },
    r"""\bnote\(['"]refusal['"]""": {"mcp_app/metrics/tally.py": "the only place that counts refusals"},
}
# Each entry point: MCP of both eras and stdio, tasks of both kinds; API, bench and retry.
ASKERS = {
    "mcp_app/execution/background/service.py",
    "mcp_app/execution/services.py",
    "mcp_app/handlers/tools.py",
}


def users_of(pattern: str) -> set[str]:
    found = re.compile(pattern)
    return {name_of(path) for path in SOURCES if found.search(path.read_text())}


@pytest.mark.parametrize("pattern", CHECKS)
def test_admission_check_has_no_second_copy(pattern: str) -> None:
    elsewhere = {user for user in users_of(pattern) if not user.startswith((GATE, *CHECKS[pattern]))}
    assert elsewhere == set(), "ask mcp_app.execution.admission.gate"


@pytest.mark.parametrize("pattern", CHECKS)
def test_every_admission_exception_still_exists(pattern: str) -> None:
    users = users_of(pattern)
    assert [place for place in CHECKS[pattern] if not any(user.startswith(place) for user in users)] == []


def test_guide_to_limits_lists_exactly_the_files_that_name_a_limit() -> None:
    """No other file needs to know a limit of a tool, so a new limit changes four files and a migration."""
    page = (ROOT / "docs/extending.md").read_text()
    guide = page.partition("\n## Add a limit\n")[2].partition("\n## ")[0]
    steps = re.findall(r"^\d\. `([\w/]+\.py)`", guide, re.MULTILINE)
    assert {f"mcp_app/{step}" for step in steps} == users_of(r"\bcalls_per_minute\b")
    assert len(steps) == 4


def test_every_entry_point_uses_admission() -> None:
    users = users_of(r"mcp_app\.execution\.admission\.gate")
    assert {user for user in users if not user.startswith(GATE)} == ASKERS
