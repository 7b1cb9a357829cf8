"""A seeded selection of the random requests, short enough for every run of the suite."""

from __future__ import annotations

import pytest

from tests.fuzz.oauth.run import run

pytestmark = [pytest.mark.process, pytest.mark.xdist_group("live")]


@pytest.mark.requirement("AUTH-05", "AUTH-30", "AUTH-32", "AUTH-33", "AUTH-37", "AUTH-39")
def test_random_requests_cause_no_fault_secret_or_foreign_redirect() -> None:
    outcome, kinds = run(2_000, seed=20261123)
    assert not outcome.wrong, "\n".join(outcome.wrong)
    assert set(kinds) == {"authorize", "token", "register", "revoke", "consent", "page", "method"}
    assert {200, 201, 302, 400, 401, 413} <= set(outcome.statuses), outcome.report()
