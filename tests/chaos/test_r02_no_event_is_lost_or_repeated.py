"""R2: a client cut off at random bytes, resuming at random processes, receives every event once, in order."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.chaos.checker import Promise
from tests.chaos.cluster import Cluster
from tests.chaos.generator import call, open_session
from tests.chaos.proxy import Proxy

STEPS = 1_500


def test_client_cut_at_random_bytes_receives_every_event_once(
    start_cluster: Callable[..., Cluster], rng: random.Random
) -> None:
    cluster = start_cluster()
    session = open_session(cluster)
    proxies = [Proxy(port, lambda: rng.randint(200, 20_000)) for port in cluster.ports]
    ports = [proxy.port for proxy in proxies]
    callers = [
        call(
            cluster, session, f"r2-{number}", "work_once", steps=STEPS, delay=0.002, ports=ports, patience=150
        )
        for number in range(2)
    ]
    for caller in callers:
        caller.join()
        assert caller.answered
    cluster.check(Promise(most_starts=1))
    for caller in callers:
        seen = [int(each.number) for each in cluster.history.of(caller.nonce, "message")]
        assert seen == list(range(1, STEPS + 1))
    assert sum(proxy.cuts for proxy in proxies) >= 30
    for proxy in proxies:
        proxy.close()
