"""A fork waits until no thread is inside a library, and the child starts clean."""

from __future__ import annotations

import os
import threading
import time

import pytest

from mcp_app.database import forking
from mcp_app.database.forking import undivided

pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")


def forked() -> int:
    """Fork a child that can work immediately; return its exit code."""
    pid = os.fork()
    if pid == 0:
        with undivided():
            os._exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_fork_waits_for_undivided_work() -> None:
    inside, ended = threading.Event(), []

    def work() -> None:
        with undivided():
            inside.set()
            threading.Event().wait(0.3)
            ended.append(time.monotonic())

    thread = threading.Thread(target=work)
    thread.start()
    assert inside.wait(5)
    assert forked() == 7
    assert ended
    thread.join()
    assert forked() == 7


def test_fork_wait_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forking, "FORK_SECONDS", 0.1)
    release = threading.Event()

    def work() -> None:
        with undivided():
            release.wait(10)

    thread = threading.Thread(target=work)
    thread.start()
    assert forked() == 7
    release.set()
    thread.join()


def test_undivided_work_runs_concurrently() -> None:
    together = threading.Barrier(2, timeout=5)

    def work() -> None:
        with undivided():
            together.wait()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not together.broken


def test_threads_of_a_forked_process_work_after_its_own_fork() -> None:
    if (pid := os.fork()) == 0:
        forked()
        done = threading.Event()

        def work() -> None:
            with undivided():
                done.set()

        threading.Thread(target=work, daemon=True).start()
        os._exit(7 if done.wait(10) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
