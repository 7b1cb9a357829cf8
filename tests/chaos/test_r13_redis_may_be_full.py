"""R13: Redis full: accepted calls finish and are answered, new work is refused; then all goes on."""

from __future__ import annotations

from collections.abc import Callable

import redis

from tests.chaos.checker import Promise
from tests.chaos.cluster import Cluster
from tests.chaos.generator import call, open_session
from tests.live import eventually

LINE_BYTES = 16 * 1024
ROOM = 8 * 1024 * 1024
WORKING = 4
SHOUTING = 10


def _is_full(client: redis.Redis) -> bool:
    try:
        client.set("room", "?", px=10)
    except redis.exceptions.OutOfMemoryError:
        return True
    return False


def test_accepted_calls_finish_while_redis_is_full_and_new_ones_are_refused(
    start_cluster: Callable[..., Cluster],
) -> None:
    cluster = start_cluster(concurrency=6)
    session = open_session(cluster)
    worker = cluster.worker_processes[0].pid
    with cluster.redis_client() as client:
        client.config_set("maxmemory", ROOM)
        callers = [
            call(cluster, session, f"work-{number}", "work_once", steps=120, patience=120)
            for number in range(WORKING)
        ]
        for caller in callers:
            cluster.wait_for(caller.nonce, number=3)
        callers += [
            call(cluster, session, f"shout-{number}", "shout", count=100, size=LINE_BYTES, patience=120)
            for number in range(SHOUTING)
        ]
        eventually(lambda: _is_full(client), 30, "a full Redis")
        cluster.strike("redis is full of what the tools say")
        refused = call(cluster, session, "refused", "work_once", steps=1, patience=5).join()
        assert not refused.answered
        assert cluster.history.of("refused", "refused")[0].text.startswith("503")
        for caller in callers[:WORKING]:
            caller.join()
            assert cluster.history.of(caller.nonce, "answer"), caller.nonce
        assert _is_full(client), "there was room again before the calls had ended"
        client.config_set("maxmemory", 32 * ROOM)
    accepted = [caller for caller in callers if cluster.history.of(caller.nonce, "accepted")]
    assert len(accepted) > WORKING
    for caller in accepted:
        caller.join()
        assert cluster.history.of(caller.nonce, "answer"), caller.nonce
    later = call(cluster, session, "later", "work_once", steps=3, retry_refused=True).join()
    assert later.answered
    # Celery sat it out: nothing that ran in its processes was lost with them.
    assert cluster.worker_processes[0].alive
    assert cluster.worker_processes[0].pid == worker
    cluster.check(Promise(complete=False))
    assert cluster.lines("refused") == []
