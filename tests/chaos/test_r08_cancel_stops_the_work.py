"""R8: a cancel stops every kind of work in time, whichever process receives it and whichever dies."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.chaos.checker import Promise
from tests.chaos.cluster import Cluster
from tests.chaos.generator import call, open_session

BOUNDS = {
    "work": 1.0,
    "work_in_thread": 2.0,
    "spin": 7.0,
    "doze": 7.0,
    "listen": 7.0,
    "hog": 7.0,
    "ignore": 7.0,
    "read_and_doze": 7.0,
}
AIR_SECONDS = 0.7


def test_cancelled_work_of_every_kind_stops_and_neighbours_continue(
    start_cluster: Callable[..., Cluster], rng: random.Random
) -> None:
    cluster = start_cluster(concurrency=len(BOUNDS) + 1)
    session = open_session(cluster)
    neighbour = call(cluster, session, "neighbour", "work_once", steps=150)
    callers = {
        tool: call(cluster, session, tool, tool, **({"steps": 900} if "work" in tool else {"seconds": 90}))
        for tool in BOUNDS
    }
    for tool in BOUNDS:
        cluster.wait_for(tool)
    for tool in sorted(BOUNDS, key=lambda _: rng.random()):
        callers[tool].cancel()
    # The process with many of their connections dies at that moment.
    cluster.kill_web(0)
    cluster.revive_web(0)
    for caller in (*callers.values(), neighbour):
        caller.join()
        assert caller.answered, caller.nonce
    promises = {tool: Promise(stops_within=seconds + AIR_SECONDS) for tool, seconds in BOUNDS.items()}
    cluster.check(**promises)
    assert cluster.history.of("neighbour", "answer")
    assert cluster.history.count("error") == len(BOUNDS)
