"""R11: Redis killed and restarted, or frozen, in the middle of calls: none is lost, streams resume."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from contextlib import closing

import pytest

from tests.chaos.checker import Promise
from tests.chaos.cluster import Cluster
from tests.chaos.generator import Caller, call, open_session
from tests.chaos.proxy import Proxy
from tests.live import eventually

CALLS = 12
# Notifications may be shed while the log is away; answers may not (what is not promised, reliability).
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
def test_calls_survive_an_outage_of_redis(
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
    # Nothing that ran was killed or failed because its log was away.
    assert cluster.history.count("answer") == CALLS


def _answers(cluster: Cluster, session: object) -> bool:
    try:
        fresh = open_session(cluster)
        with closing(fresh.via(cluster.ports[0])) as client:
            answer = client.tool("quick", nonce="q")
    except (OSError, AssertionError):
        return False
    return "result" in answer


def test_calls_are_served_again_soon_after_a_firewall_forgot_every_connection(
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
