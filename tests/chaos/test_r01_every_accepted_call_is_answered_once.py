"""R1: web processes die or freeze; every accepted call still has exactly one outcome."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable

from tests.chaos.checker import Promise
from tests.chaos.cluster import Cluster, again_and_again
from tests.chaos.generator import call, open_session
from tests.servers.live import eventually

CALLS = 60
MOST_CALLS = 300
KILL_SECONDS = 3.0


def test_calls_survive_death_of_web_processes(
    start_cluster: Callable[..., Cluster], rng: random.Random
) -> None:
    cluster = start_cluster(workers=2)
    session = open_session(cluster)

    def kill_one() -> None:
        number = rng.randrange(2)
        cluster.kill_web(number)
        cluster.revive_web(number)

    made = 0
    with again_and_again(kill_one, KILL_SECONDS):
        while made == 0 or (len(cluster.faults) < 2 and made < MOST_CALLS):
            callers = [
                call(cluster, session, f"r1-{number}", steps=rng.randint(1, 15), cuts=0.02)
                for number in range(made, made + CALLS)
            ]
            made += CALLS
            for caller in callers:
                caller.join()
    cluster.check(Promise(most_starts=1))
    assert cluster.history.count("answer") == made
    assert len(cluster.faults) >= 2
    # The kills really interrupted calls.
    assert sum(each.kind == "cut" and each.text != "by choice" for each in cluster.history.seen) >= 5


def test_calls_survive_frozen_web_processes(start_cluster: Callable[..., Cluster]) -> None:
    cluster = start_cluster(workers=2)
    session = open_session(cluster)
    callers = [
        call(cluster, session, f"still-{number}", steps=40, delay=0.5, patience=150) for number in range(8)
    ]
    eventually(lambda: len(cluster.lines(what="start")) >= 4, 60, "as many calls as there are places")
    for frozen in (0, 1):
        cluster.freeze_web(frozen)
        # Its readers wait for their own timeout, and then go to the other process.
        before = cluster.history.count("cut")
        eventually(lambda seen=before: cluster.history.count("cut") > seen, 40, "a reader gives it up")
        os.kill(cluster.processes[frozen].pid, signal.SIGCONT)
        cluster.strike(f"continue web {frozen}")
    for caller in callers:
        caller.join()
        assert caller.answered
    cluster.check(Promise(most_starts=1))
