"""R33: C code that holds the interpreter lock stops its process' lease renewer, but breaks no promise."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import psutil
import pytest

from tests.chaos.checker import Promise
from tests.chaos.cluster import Cluster
from tests.chaos.generator import call, open_session
from tests.servers.live import eventually

LONG_SECONDS = 40
CANCEL_SECONDS = 7.0
TIMEOUT_SECONDS = 10.0 + 7.0
LOST_SECONDS = 25.0
AIR_SECONDS = 5.0
LEASE = "from mcp_app.models import Call; print(Call.objects.get(tool='keep_lock_once').lease_until)"


def _is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_code_holding_interpreter_lock_runs_once_and_can_be_stopped(
    start_cluster: Callable[..., Cluster],
) -> None:
    finishing = ("keep_lock", "keep_lock_once", "keep_lock_async")
    stopped = ("cancelled", "timed-out")
    cluster = start_cluster(concurrency=len(finishing) + len(stopped) + 1)
    session = open_session(cluster)
    callers = {tool: call(cluster, session, tool, tool, seconds=LONG_SECONDS) for tool in finishing}
    neighbour = call(cluster, session, "neighbour", "work_once", steps=150)
    callers["cancelled"] = call(cluster, session, "cancelled", "keep_lock", seconds=90)
    callers["timed-out"] = call(cluster, session, "timed-out", "keep_lock_too_long", seconds=90)
    began = {nonce: cluster.wait_for(nonce) for nonce in callers}
    callers["cancelled"].cancel()
    for nonce, caller in (*callers.items(), ("neighbour", neighbour)):
        caller.join()
        assert caller.answered, nonce
    for tool in finishing:
        assert cluster.history.of(tool, "answer"), (tool, cluster.history.of(tool))
    (cancel,), (cancelled,) = (cluster.history.of("cancelled", kind) for kind in ("cancel", "error"))
    assert "-32800" in cancelled.text
    assert cancelled.at - cancel.at < CANCEL_SECONDS + AIR_SECONDS
    (timed_out,) = cluster.history.of("timed-out", "error")
    assert "timed out after 10 seconds" in timed_out.text
    assert timed_out.at - began["timed-out"].at < TIMEOUT_SECONDS + AIR_SECONDS
    assert all(_is_gone(began[nonce].pid) for nonce in stopped)
    assert cluster.history.of("neighbour", "answer")
    cluster.check(Promise(most_starts=1))


@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGSTOP])
def test_dead_or_frozen_child_is_detected_despite_held_interpreter_lock(
    start_cluster: Callable[..., Cluster], blow: signal.Signals
) -> None:
    cluster = start_cluster(concurrency=2)
    session = open_session(cluster)
    caller = call(cluster, session, "lost", "keep_lock_once", seconds=90)
    pid = cluster.wait_for("lost").pid
    first = cluster.shell(LEASE)
    eventually(lambda: cluster.shell(LEASE) != first, 30, "a renewal by the main process")
    os.kill(pid, blow)
    struck = time.monotonic()
    caller.join()
    (error,) = cluster.history.of("lost", "error")
    assert "was interrupted" in error.text
    assert error.at - struck < LOST_SECONDS + AIR_SECONDS
    cluster.check(Promise(most_starts=1))
    # The frozen process is not mistaken for a new one, and no other process is ended in its place.
    after = call(cluster, session, "after", "work_once", steps=2)
    after.join()
    assert cluster.history.of("after", "answer")


def test_child_with_next_job_is_not_ended_for_previous_one(
    start_cluster: Callable[..., Cluster],
) -> None:
    cluster = start_cluster(concurrency=1)
    session = open_session(cluster)
    first = call(cluster, session, "first", "keep_lock_once", seconds=4)
    pid = cluster.wait_for("first").pid
    first.cancel()  # Its code ends before the process would be ended.
    second = call(cluster, session, "second", "work_once", steps=60)
    assert cluster.wait_for("second").pid == pid
    for caller in (first, second):
        caller.join()
    assert "-32800" in cluster.history.of("first", "error")[0].text
    assert cluster.history.of("second", "answer")
    eventually(lambda: not _is_gone(pid), 1, "the same child")
    cluster.check(Promise(most_starts=1))
