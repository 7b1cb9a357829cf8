"""R13: Redis full: accepted calls finish and are answered, new work is refused; then all goes on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from tests.chaos.checker import Promise
from tests.chaos.cluster import Cluster
from tests.chaos.generator import call, open_session
from tests.live import eventually


def test_accepted_calls_finish_while_redis_is_full_and_new_ones_are_refused(
    start_cluster: Callable[..., Cluster],
) -> None:
    cluster = start_cluster(concurrency=4)
    session = open_session(cluster)
    callers = [call(cluster, session, f"r13-{number}", "work_once", steps=30) for number in range(4)]
    for caller in callers:
        cluster.wait_for(caller.nonce, number=3)
    with cluster.redis_client() as client:
        used = int(client.info("memory")["used_memory"])
        client.config_set("maxmemory", used // 2)
        cluster.strike("maxmemory")
        refused = call(cluster, session, "refused", "work_once", steps=1, patience=5).join()
        assert not refused.answered
        assert cluster.history.of("refused", "refused")[0].text.startswith("503")
        for caller in callers:
            caller.join()
            assert caller.answered
        assert cluster.history.count("answer") == len(callers)
        client.config_set("maxmemory", 256 * 1024 * 1024)
    # Celery's main process ends when it cannot acknowledge a job; `up` starts it again, here we do.
    worker = cluster.worker_processes[0]
    with suppress(AssertionError):
        eventually(lambda: not worker.alive, 5)
        cluster.revive_worker()
    later = call(cluster, session, "later", "work_once", steps=3, retry_refused=True).join()
    assert later.answered
    cluster.check(Promise(complete=False))
    assert cluster.lines("refused") == []
    eventually(lambda: cluster.lines("later", "end"), 5, "the later call's end")
