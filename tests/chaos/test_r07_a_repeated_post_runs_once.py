"""R7: a POST sent twice, or repeated because its response was lost, starts the tool once."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import closing

from tests.chaos.checker import Promise
from tests.chaos.cluster import Cluster
from tests.chaos.generator import Caller, call, open_session
from tests.chaos.proxy import Proxy

CALLS = 30
# Enough steps that the twin of a call finds it running: afterwards it would be a new call.
STEPS = 20


def test_doubled_posts_and_lost_responses_start_each_call_once(
    start_cluster: Callable[..., Cluster], rng: random.Random
) -> None:
    cluster = start_cluster(concurrency=4)
    session = open_session(cluster)
    # A fifth of the responses is lost before the client receives an event id.
    proxies = [
        Proxy(port, lambda: rng.randint(0, 60) if rng.random() < 0.2 else None) for port in cluster.ports
    ]
    ports = [proxy.port for proxy in proxies]
    callers: list[Caller] = []
    for number in range(CALLS):
        callers.append(call(cluster, session, f"r7-{number}", "work_once", steps=STEPS, ports=ports))
        if rng.random() < 0.2:
            # Its twin records only server responses under the same nonce; the ledger counts the starts.
            twin = cluster.mcp(rng.randrange(2))
            twin.session, twin.version = session.session, session.version
            params = {
                "name": "work_once",
                "arguments": {"nonce": f"r7-{number}", "steps": STEPS},
                "_meta": {"progressToken": f"r7-{number}"},
            }
            body = {"jsonrpc": "2.0", "id": f"r7-{number}", "method": "tools/call", "params": params}
            assert twin.post(body).status == 200
            twin.close()
    for caller in callers:
        caller.join()
        assert caller.answered
    assert sum(proxy.cuts for proxy in proxies) >= 3
    cluster.check(Promise(most_starts=1))
    assert len(cluster.lines(what="start")) == CALLS
    for proxy in proxies:
        proxy.close()


def test_different_arguments_under_in_flight_id_are_refused(
    start_cluster: Callable[..., Cluster],
) -> None:
    cluster = start_cluster()
    session = open_session(cluster)
    caller = call(cluster, session, "r7", "work_once", steps=30)
    cluster.wait_for("r7", "start")
    other = {"name": "work_once", "arguments": {"nonce": "r7", "steps": 3}}
    message = json.dumps({"jsonrpc": "2.0", "id": "r7", "method": "tools/call", "params": other})
    with closing(session.via(cluster.ports[1])) as client:
        assert client.post(message.encode()).json()["error"]["code"] == -32600
    caller.join()
    assert len(cluster.lines("r7", "start")) == 1
