"""R5: a worker frozen past its lease wakes up and changes nothing that happened meanwhile."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from tests.chaos.checker import Promise
from tests.chaos.cluster import Cluster
from tests.chaos.generator import call, open_session
from tests.servers.live import eventually

STATE = "from mcp_app.models import Call; print(Call.objects.get(tool='work').state)"


def test_worker_waking_after_its_lease_adds_nothing(
    start_cluster: Callable[..., Cluster],
) -> None:
    cluster = start_cluster(workers=2, concurrency=1)
    session = open_session(cluster)
    caller = call(cluster, session, "r5", steps=30, delay=0.2)
    first = cluster.wait_for("r5", number=3)
    frozen = next(worker for worker in cluster.worker_processes if first.pid in worker.children)
    cluster.freeze_group(cluster.worker_processes.index(frozen))
    second = cluster.wait_for("r5", "start", number=2, seconds=30)
    assert second.pid != first.pid
    frozen.signal_group(signal.SIGCONT)
    cluster.strike("continue worker group")
    caller.join()
    assert caller.answered
    time.sleep(2)
    cluster.check(Promise(most_starts=2))
    answer = cluster.history.of("r5", "answer")[0]
    assert answer.run == second.run
    # It did wake, and learned that it had lost its call.
    assert [line.run for line in cluster.lines("r5", "stopped")] == [first.run]


def test_worker_waking_while_its_call_waits_for_another_adds_nothing(
    start_cluster: Callable[..., Cluster],
) -> None:
    cluster = start_cluster(workers=2, concurrency=1)
    session = open_session(cluster)
    caller = call(cluster, session, "r5", steps=30, delay=0.2, patience=120)
    first = cluster.wait_for("r5", number=3)
    frozen = next(worker for worker in cluster.worker_processes if first.pid in worker.children)
    # The only other child is busy, so that the call has to wait.
    busy = call(cluster, session, "busy", "doze", seconds=45, patience=120)
    cluster.wait_for("busy")
    cluster.freeze_group(cluster.worker_processes.index(frozen))
    eventually(lambda: cluster.shell(STATE).strip() == "accepted", 40, "the release of the call")
    released = time.monotonic()
    frozen.signal_group(signal.SIGCONT)
    cluster.strike("continue worker group")
    for each in (caller, busy):
        each.join()
        assert each.answered
    cluster.check(r5=Promise(most_starts=2))
    late = [each for each in cluster.history.of("r5") if each.at > released and each.run == first.run]
    assert late == []
    assert cluster.history.of("r5", "answer")[0].run != first.run


def test_pause_of_all_processes_ends_no_call(start_cluster: Callable[..., Cluster]) -> None:
    cluster = start_cluster(concurrency=3)
    session = open_session(cluster)
    callers = [
        call(cluster, session, f"r5-{number}", "work_once", steps=250, patience=120) for number in range(3)
    ]
    for caller in callers:
        cluster.wait_for(caller.nonce, number=5)
    _signal_all(cluster, signal.SIGSTOP)
    cluster.strike("stop everything")
    time.sleep(20)
    _signal_all(cluster, signal.SIGCONT)
    for caller in callers:
        caller.join()
    cluster.check(Promise(most_starts=1))
    assert cluster.history.count("answer") == len(callers)


def _signal_all(cluster: Cluster, number: int) -> None:
    for process in cluster.processes:
        os.kill(process.pid, number)
    for worker in cluster.worker_processes:
        worker.signal_group(number)
