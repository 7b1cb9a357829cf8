"""A seeded selection of the fuzzer's cases, short enough for every run of the suite."""

from __future__ import annotations

import pytest

from tests.fuzz.run import fuzz

pytestmark = [pytest.mark.process, pytest.mark.xdist_group("live")]


@pytest.mark.requirement("RPC-11", "GEN-03", "T-POST-04", "T-POST-05")
def test_hostile_bytes_get_documented_responses_and_server_stays_intact() -> None:
    outcome = fuzz(3000, seed=20251125)
    assert not outcome.wrong, "\n".join(outcome.wrong)
    assert outcome.answered > 2000, outcome.report()
    assert {200, 202, 400} <= set(outcome.statuses), outcome.report()
