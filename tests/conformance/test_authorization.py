"""The conformance suite accepts the authorization server at every revision it knows."""

from __future__ import annotations

import pytest

from tests.conformance import authorization
from tests.conformance.outcome import Outcome
from tests.interop import npm
from tests.servers.live import LiveServer

GOOD = "".join(f"✓ {name}: 1 passed, 0 failed\n" for name in authorization.SCENARIOS)


@pytest.mark.process
@pytest.mark.xdist_group("interop")
@pytest.mark.requirement("AUTH-15", "AUTH-27", "AUTH-28")
def test_conformance_suite_accepts_authorization_server() -> None:
    npm.packages("conformance")
    with LiveServer(2, env=authorization.GUARDED) as server:
        found = authorization.outcomes(server)
        assert not server.trouble(), server.logs()[-4000:]
    assert [outcome.problems for outcome in found] == [[]] * len(authorization.RUNS)
    assert all(set(outcome.scenarios) == authorization.SCENARIOS for outcome in found)


@pytest.mark.requirement("CONF-01")
def test_warning_is_problem_if_suite_has_no_baseline() -> None:
    (run, *_) = authorization.RUNS
    assert Outcome(run, GOOD, 0).problems == []
    assert Outcome(run, GOOD, 0, ("metadata: WARNING: too short",)).problems == [
        "metadata: WARNING: too short"
    ]
    assert Outcome(run, GOOD.replace("1 passed", "0 passed"), 0).problems
    assert Outcome(run, "", 0).problems
