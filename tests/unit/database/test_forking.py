"""A fork waits until no thread is inside of a library, and the child starts afresh."""

from __future__ import annotations

import os
import threading
import time

import pytest

from mcp_app.database import forking
from mcp_app.database.forking import undivided

pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")


def forked() -> int:
    """Fork a child that can work at once; returns its exit code."""
    pid = os.fork()
    if pid == 0:
        with undivided():
            os._exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_fork_waits_for_the_end_of_a_piece_of_work() -> None:
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


def test_a_fork_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_work_of_several_threads_does_not_exclude_each_other() -> None:
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
