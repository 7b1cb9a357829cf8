"""R20: a rolling restart by SIGTERM of every web process and worker under load loses no call."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable

from tests.chaos.checker import Promise
from tests.chaos.cluster import Cluster
from tests.chaos.generator import call, open_session
from tests.servers.live import eventually

CALLS = 40


def test_rolling_restart_loses_no_call(start_cluster: Callable[..., Cluster], rng: random.Random) -> None:
    cluster = start_cluster(workers=2)
    session = open_session(cluster)
    callers = [
        call(cluster, session, f"r20-{number}", steps=rng.randint(5, 15), patience=90, retry_refused=True)
        for number in range(CALLS)
    ]
    eventually(lambda: len(cluster.lines(what="start")) >= 4, 20, "work in every child")
    working = len(cluster.lines(what="start")) - len(cluster.lines(what="end"))
    assert working >= 2
    for number in range(2):
        cluster.restart(number, signal.SIGTERM)
        cluster.strike(f"restart web {number}")
        cluster.worker_processes[number].stop(signal.SIGTERM)
        cluster.strike(f"stop worker {number}")
        cluster.revive_worker(number)
    for caller in callers:
        caller.join()
        assert caller.answered, caller.nonce
    cluster.check(Promise(most_starts=3))
    assert cluster.history.count("answer") == CALLS
    assert cluster.history.count("closed") + cluster.history.count("cut") >= 4, "nobody noticed"
