"""Lost jobs of a worker: reserved long ago and started by no living child."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, replace

import pytest

from mcp_app.execution.background import stalled_jobs
from mcp_app.execution.background.stalled_jobs import LostJobs


@dataclass(frozen=True)
class Job:
    id: str
    worker_pid: int | None = None


A, B = Job("a"), Job("b")


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> LostJobs:
    monkeypatch.setattr(stalled_jobs, "LOST_SECONDS", 0.0)
    return LostJobs()


def test_first_seen_job_is_not_lost() -> None:
    assert LostJobs().among([A, B], []) == []


def test_job_still_waiting_on_second_look_is_lost(jobs: LostJobs) -> None:
    jobs.among([A], [])
    assert jobs.among([A, B], []) == [A]


@pytest.mark.parametrize("pid", [None, os.getpid()], ids=["unknown", "alive"])
def test_started_job_is_not_lost(jobs: LostJobs, pid: int | None) -> None:
    begun = replace(A, worker_pid=pid)
    jobs.among([begun], [])
    assert jobs.among([begun], [begun]) == []


@pytest.mark.process
def test_job_started_by_dead_child_is_lost_on_second_look(jobs: LostJobs) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait()
    begun = replace(A, worker_pid=child.pid)
    assert jobs.among([begun], [begun]) == []
    assert jobs.among([begun], [begun]) == [begun]


def test_redelivered_job_is_waited_for_again(jobs: LostJobs) -> None:
    jobs.among([A], [])
    jobs.among([], [])
    assert jobs.among([A], []) == []
