"""R4: kill -9 between any two steps of a worker gives a retry or an error within 25 s, never silence."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pytest

from tests.chaos.checker import Promise
from tests.chaos.cluster import Cluster
from tests.chaos.generator import call, open_session
from tests.servers.live import eventually

POINTS = ("before-claim", "after-claim", "before-append", "before-store", "after-store")
BOUND_SECONDS = 25.0
AIR_SECONDS = 5.0


@pytest.fixture
def cluster(start_cluster: Callable[..., Cluster]) -> Cluster:
    return start_cluster(concurrency=len(POINTS) + 1)


@pytest.mark.parametrize("victim", ["children", "group"])
@pytest.mark.parametrize("tool", ["work", "work_once"])
def test_worker_killed_between_two_steps_leaves_no_call_unanswered(
    cluster: Cluster, victim: str, tool: str
) -> None:
    session = open_session(cluster)
    for point in POINTS:
        cluster.arm(point)
    nonces = [f"r4-{number}" for number in range(len(POINTS))]
    callers = [
        call(cluster, session, nonce, tool, steps=2, delay=0.05, retry_refused=True) for nonce in nonces
    ]
    # Each process is held at the first free point, so one call waits at each.
    held = [cluster.held_at(point) for point in POINTS]
    assert len(set(held)) == len(POINTS)
    started = len(cluster.lines(what="start"))
    assert cluster.history.count("answer") == 0
    if victim == "group":
        cluster.kill_group()
        cluster.revive_worker()
    else:
        for pid in held:
            cluster.kill(pid, "worker child")
    for point in POINTS:
        cluster.let_go(point)
    struck = time.monotonic()
    for caller in callers:
        caller.join()
        assert caller.answered
    endings = [cluster.history.of(nonce, "answer", "error")[0] for nonce in nonces]
    assert max(each.at for each in endings) - struck < BOUND_SECONDS + AIR_SECONDS
    assert started >= 2, "the kill came before anything had begun"
    cluster.check(Promise(most_starts=3 if tool == "work" else 1))
    answered = sum(each.kind == "answer" for each in endings)
    # A tool that must not start twice fails where it may have started; elsewhere it succeeds normally.
    assert answered == (len(POINTS) if tool == "work" else 2), endings


def test_job_stuck_with_frozen_children_is_returned_and_frees_its_slot(
    start_cluster: Callable[..., Cluster],
) -> None:
    cluster = start_cluster(concurrency=2)
    session = open_session(cluster)
    children = cluster.worker_processes[0].children
    for pid in children:
        os.kill(pid, signal.SIGSTOP)
    cluster.strike("stop both children before they have a job")
    callers = [
        call(cluster, session, f"lost-{number}", "work_once", steps=2, patience=90) for number in range(2)
    ]
    eventually(lambda: cluster.logs().count("was lost with its process") >= 2, 40, "lost jobs")
    for pid in children:
        cluster.kill(pid, "worker child")
    for caller in callers:
        caller.join()
        assert cluster.history.of(caller.nonce, "answer"), caller.nonce
    with cluster.redis_client() as client:
        eventually(lambda: not client.hlen("unacked"), 30, "no job that is not acknowledged")
    cluster.check(Promise(most_starts=1))
