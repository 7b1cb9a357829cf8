"""R5: a worker frozen past its lease wakes up and changes nothing of what happened without it."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

from tests.chaos.checker import Promise
from tests.chaos.cluster import Cluster
from tests.chaos.generator import call, open_session


def test_a_worker_that_wakes_after_its_lease_adds_nothing_to_the_story(
    start_cluster: Callable[..., Cluster],
) -> None:
    cluster = start_cluster(workers=2, concurrency=1)
    session = open_session(cluster)
    caller = call(cluster, session, "r5", steps=30, delay=0.2)
    first = cluster.wait_for("r5", number=3)
    frozen = next(worker for worker in cluster.worker_processes if first.pid in worker.children)
    frozen.signal_group(signal.SIGSTOP)
    cluster.strike("stop worker group")
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
    # It did wake, and was told that its call is no longer its own.
    assert [line.run for line in cluster.lines("r5", "stopped")] == [first.run]
