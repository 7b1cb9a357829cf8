"""R11: Redis killed and restarted, frozen, demoted or answering errors: no call is lost, streams resume."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from itertools import count

import pytest

from tests.chaos.checker import Promise
from tests.chaos.cluster import Cluster, again_and_again
from tests.chaos.generator import Caller, call, open_session
from tests.chaos.proxy import Proxy
from tests.clients.raw_http import Mcp
from tests.servers.live import eventually
from tests.servers.redis_answers import BREAKS, ERRORS, MISTAKEN, RedisAnswers

CALLS = 12
REFUSALS = 5
REFUSED_SECONDS = 1.5
CALL_SECONDS = 0.2
# Commands answered in place of Redis before it has recovered.
MET = 20
# Commands that only Celery's broker sends.
BROKER = ("BRPOP", "LLEN", "SMEMBERS", "WATCH", "MULTI", "EXEC")
# Notifications may be dropped while the log is unavailable; answers may not.
SHED = Promise(most_starts=1, complete=False)


def _kill(cluster: Cluster) -> None:
    cluster.kill_redis()
    time.sleep(1)
    cluster.revive_redis()


def _freeze(cluster: Cluster) -> None:
    assert cluster.redis.process is not None
    cluster.redis.process.send_signal(signal.SIGSTOP)
    cluster.strike("stop redis")
    time.sleep(8)
    cluster.redis.process.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("fault", [_kill, _freeze], ids=["killed", "frozen"])
def test_calls_survive_redis_outage(
    start_cluster: Callable[..., Cluster], rng: random.Random, fault: Callable[[Cluster], None]
) -> None:
    cluster = start_cluster(workers=2)
    session = open_session(cluster)
    callers: list[Caller] = [
        call(cluster, session, f"r11-{number}", "work_once", steps=rng.randint(10, 40), retry_refused=True)
        for number in range(CALLS)
    ]
    eventually(lambda: len(cluster.lines(what="start")) >= 3, 20, "three calls at work")
    working = len(cluster.lines(what="start")) - len(cluster.lines(what="end"))
    assert working >= 2
    fault(cluster)
    back = time.monotonic()
    eventually(lambda: _answers(cluster, session), 20, "service")
    assert time.monotonic() - back < 10
    for caller in callers:
        caller.join()
        assert caller.answered, caller.nonce
    cluster.check(SHED)
    # No running call was killed or failed because its log was unavailable.
    assert cluster.history.count("answer") == CALLS


@contextmanager
def _load(cluster: Cluster, session: Mcp) -> Iterator[list[Caller]]:
    """Make five calls a second inside the context; check that surviving workers answered each."""
    callers: list[Caller] = []
    workers, numbers = [worker.pid for worker in cluster.worker_processes], count()

    def begin() -> None:
        nonce = f"load-{next(numbers)}"
        callers.append(call(cluster, session, nonce, "work_once", steps=2, patience=120, retry_refused=True))

    with again_and_again(begin, CALL_SECONDS):
        yield callers
    for caller in callers:
        caller.join()
    assert [worker.pid for worker in cluster.worker_processes if worker.alive] == workers
    assert [caller.nonce for caller in callers if not caller.answered] == []
    print(f"{len(callers)} calls answered, workers {workers} alive")


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(Cluster.redis_is_a_replica, id="replica"),
        pytest.param(Cluster.redis_misses_its_replicas, id="too-few-replicas"),
    ],
)
def test_workers_survive_refused_writes(
    start_cluster: Callable[..., Cluster], refusal: Callable[[Cluster], AbstractContextManager[None]]
) -> None:
    """An error reply, unlike a lost connection, could end a worker that had just finished a job."""
    cluster = start_cluster(workers=2)
    session = open_session(cluster)
    with _load(cluster, session) as callers:
        for _ in range(REFUSALS):
            finished = cluster.history.count("answer")
            eventually(lambda least=finished: cluster.history.count("answer") > least, 30, "an answer")
            with refusal(cluster):
                time.sleep(REFUSED_SECONDS)
            eventually(lambda: _answers(cluster, session), 20, "service")
    assert len(callers) > REFUSALS
    cluster.check(SHED)


def test_workers_survive_any_redis_reply(start_cluster: Callable[..., Cluster]) -> None:
    """Cover each command in turn, and for those of the broker also replies to other commands."""
    proxies: list[RedisAnswers] = []

    def through(port: int) -> int:
        proxies.append(RedisAnswers(port))
        return proxies[0].port

    cluster = start_cluster(through=through, workers=2)
    session = open_session(cluster)
    (redis,) = proxies
    with _load(cluster, session):
        for name, answer in [*ERRORS.items(), *BREAKS.items()]:
            _answer(cluster, redis, name, answer)
        for name, answer in MISTAKEN.items():
            _answer(cluster, redis, name, answer, *BROKER)
    cluster.check(SHED)
    redis.close()


def _answer(cluster: Cluster, redis: RedisAnswers, name: str, answer: bytes, *commands: str) -> None:
    """Give this reply until both workers have received it, then wait for service."""
    redis.refused.clear()
    redis.refuse(answer, *commands)
    cluster.strike(f"redis answers {name}")
    eventually(lambda: redis.refused.total() > MET, 20, f"commands that are answered {name}")
    redis.allow()
    cluster.strike("redis answers well")
    finished = cluster.history.count("answer")
    eventually(lambda: cluster.history.count("answer") > finished, 40, f"an answer after {name}")


def _answers(cluster: Cluster, session: object) -> bool:
    try:
        fresh = open_session(cluster)
        with closing(fresh.via(cluster.ports[0])) as client:
            answer = client.tool("quick", nonce="q")
    except (OSError, AssertionError):
        return False
    return "result" in answer


def test_calls_work_soon_after_firewall_dropped_every_connection(
    start_cluster: Callable[..., Cluster],
) -> None:
    proxies: list[Proxy] = []

    def through(port: int) -> int:
        proxies.append(Proxy(port))
        return proxies[0].port

    cluster = start_cluster(through=through)
    session = open_session(cluster)
    running = call(cluster, session, "running", "work_once", steps=100)
    cluster.wait_for("running", number=3)
    proxies[0].forget()
    cluster.strike("connections forgotten")
    forgotten = time.monotonic()
    later = [
        call(cluster, session, f"later-{number}", "work_once", steps=2, patience=90, retry_refused=True)
        for number in range(3)
    ]
    for caller in (running, *later):
        caller.join()
        assert cluster.history.of(caller.nonce, "answer"), caller.nonce
    assert time.monotonic() - forgotten < 60
    cluster.check(SHED)
    proxies[0].close()
