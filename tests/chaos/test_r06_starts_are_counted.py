"""R6: a tool that must not start twice does not, and an idempotent one not more often than it allows."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.chaos.checker import Promise
from tests.chaos.cluster import Cluster, again_and_again
from tests.chaos.generator import call, open_session


def test_killed_worker_children_never_start_call_too_often(
    start_cluster: Callable[..., Cluster], rng: random.Random
) -> None:
    cluster = start_cluster(concurrency=4)
    session = open_session(cluster)
    struck = 0

    def kill_busy_child() -> None:
        nonlocal struck
        busy = {line.pid for line in cluster.lines()[-8:]} & set(cluster.worker_processes[0].children)
        if busy and struck < 4:
            cluster.kill(rng.choice(sorted(busy)), "worker child")
            struck += 1

    with again_and_again(kill_busy_child, 1.5):
        once = [
            call(cluster, session, f"once-{number}", "work_once", steps=12, patience=90)
            for number in range(8)
        ]
        twice = [call(cluster, session, f"twice-{number}", steps=12, patience=90) for number in range(8)]
        for caller in (*once, *twice):
            caller.join()
            assert caller.answered, caller.nonce
    assert struck >= 2
    cluster.check(Promise(most_starts=3), **{f"once-{number}": Promise(most_starts=1) for number in range(8)})
    # Killed calls that may start again did so, and succeeded.
    assert all(cluster.history.of(caller.nonce, "answer") for caller in twice)
