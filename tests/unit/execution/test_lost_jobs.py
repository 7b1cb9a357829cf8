"""Which jobs of a worker count as lost: those it took long ago and nobody began."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from mcp_app.execution import lost_jobs
from mcp_app.execution.lost_jobs import LostJobs


@dataclass(frozen=True)
class Job:
    id: str


A, B = Job("a"), Job("b")


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> LostJobs:
    monkeypatch.setattr(lost_jobs, "LOST_SECONDS", 0.0)
    return LostJobs()


def test_a_job_is_not_lost_when_it_is_first_seen() -> None:
    assert LostJobs().among([A, B], []) == []


def test_a_job_that_still_waits_later_is_lost(jobs: LostJobs) -> None:
    jobs.among([A], [])
    assert jobs.among([A, B], []) == [A]


def test_a_job_that_was_begun_is_not_lost(jobs: LostJobs) -> None:
    jobs.among([A], [])
    assert jobs.among([A], [A]) == []


def test_a_job_that_comes_again_is_waited_for_anew(jobs: LostJobs) -> None:
    jobs.among([A], [])
    jobs.among([], [])
    assert jobs.among([A], []) == []
