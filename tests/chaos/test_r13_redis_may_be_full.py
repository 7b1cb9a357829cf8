"""R13: Redis full or read-only: accepted calls finish and new work is refused; then service resumes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from itertools import count

import pytest
import redis

from tests.chaos.checker import Promise
from tests.chaos.cluster import Cluster
from tests.chaos.generator import Caller, call, open_session
from tests.clients.raw_http import Mcp
from tests.servers.live import eventually

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


@contextmanager
def _kept_full(client: redis.Redis) -> Iterator[None]:
    """Repeatedly use up free memory: trimming of the log frees some meanwhile."""
    over = threading.Event()

    def fill() -> None:
        for number in count():
            with suppress(redis.exceptions.OutOfMemoryError):
                client.set(f"filler-{number}", b"x" * 1024)
                continue
            if over.wait(0.01):
                return

    filling = threading.Thread(target=fill)
    filling.start()
    try:
        yield
    finally:
        over.set()
        filling.join()


def _new_calls_until_one_is_refused(cluster: Cluster, session: Mcp) -> tuple[Caller, list[Caller]]:
    """Return the first refused call, and earlier ones that fitted into memory freed by trimming."""
    lucky: list[Caller] = []
    for number in range(20):
        caller = call(cluster, session, f"new-{number}", "work_once", steps=1, patience=120)
        heard = partial(cluster.history.of, caller.nonce, "accepted", "refused")
        eventually(heard, 10, "acceptance or refusal")
        if cluster.history.of(caller.nonce, "refused"):
            return caller.join(), lucky
        lucky.append(caller)
    raise AssertionError("nothing is refused")


def test_accepted_calls_finish_while_redis_is_full_and_new_calls_are_refused(
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
        with _kept_full(client):
            refused, lucky = _new_calls_until_one_is_refused(cluster, session)
            assert cluster.history.of(refused.nonce, "refused")[0].text.startswith("503")
            for caller in callers[:WORKING]:
                caller.join()
                assert cluster.history.of(caller.nonce, "answer"), caller.nonce
        client.config_set("maxmemory", 32 * ROOM)
    accepted = [caller for caller in (*callers, *lucky) if cluster.history.of(caller.nonce, "accepted")]
    assert len(accepted) > WORKING
    for caller in accepted:
        caller.join()
        assert cluster.history.of(caller.nonce, "answer"), caller.nonce
    later = call(cluster, session, "later", "work_once", steps=3, retry_refused=True).join()
    assert later.answered
    # Celery survived: no work in its processes was lost.
    assert cluster.worker_processes[0].alive
    assert cluster.worker_processes[0].pid == worker
    cluster.check(Promise(complete=False))
    assert cluster.lines(refused.nonce) == []


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(Cluster.redis_is_a_replica, id="replica"),
        pytest.param(Cluster.redis_misses_its_replicas, id="too-few-replicas"),
    ],
)
def test_accepted_calls_finish_while_redis_is_read_only(
    start_cluster: Callable[..., Cluster], refusal: Callable[[Cluster], AbstractContextManager[None]]
) -> None:
    cluster = start_cluster(concurrency=WORKING)
    session = open_session(cluster)
    worker = cluster.worker_processes[0].pid
    callers = [
        call(cluster, session, f"work-{number}", "work_once", steps=30, patience=120)
        for number in range(WORKING)
    ]
    for caller in callers:
        cluster.wait_for(caller.nonce, number=3)
    with refusal(cluster):
        refused, lucky = _new_calls_until_one_is_refused(cluster, session)
        assert lucky == []
        assert cluster.history.of(refused.nonce, "refused")[0].text.startswith("503")
        for caller in callers:
            cluster.wait_for(caller.nonce, "end")
    callers.append(call(cluster, session, "later", "work_once", steps=3, retry_refused=True, patience=120))
    for caller in callers:
        caller.join()
        assert cluster.history.of(caller.nonce, "answer"), caller.nonce
    assert cluster.worker_processes[0].alive
    assert cluster.worker_processes[0].pid == worker
    cluster.check(Promise(complete=False))
    assert cluster.lines(refused.nonce) == []
