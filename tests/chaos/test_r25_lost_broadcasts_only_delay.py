"""R25: with every publish/subscribe message dropped, cancels, answers and resumptions arrive later."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from tests.chaos.checker import Promise
from tests.chaos.cluster import Cluster
from tests.chaos.generator import call, open_session
from tests.chaos.proxy import Proxy

EXTRA_SECONDS = 10.0
AIR_SECONDS = 2.0
proxies: list[Proxy] = []


def through(port: int) -> int:
    """Put a proxy in front of Redis."""
    proxies[:] = [Proxy(port)]
    return proxies[0].port


@pytest.fixture
def cluster(start_cluster: Callable[..., Cluster]) -> Iterator[Cluster]:
    yield start_cluster(through=through, concurrency=3)
    proxies[0].close()


def test_lost_broadcasts_only_delay_cancels_answers_and_resumptions(cluster: Cluster) -> None:
    session = open_session(cluster)
    cancelled = call(cluster, session, "cancelled", "work", steps=900)
    resumed = call(cluster, session, "resumed", "work_once", steps=60, cuts=0.1)
    for nonce in ("cancelled", "resumed"):
        cluster.wait_for(nonce, number=3)
    proxies[0].muted = True
    cluster.strike("broadcasts swallowed")
    cancelled.cancel()
    asking = call(
        cluster,
        session,
        "ask",
        "ask",
        on_question=lambda client, message: (
            client.respond(message["id"], {"action": "accept", "content": {"value": "Ada"}}) and None
        ),
    )
    began = time.monotonic()
    for caller, usual in ((cancelled, 1.0), (asking, 1.0), (resumed, 8.0)):
        caller.join()
        assert caller.answered, caller.nonce
        ended = cluster.history.of(caller.nonce, "answer", "error")[0].at
        # The question and its answer are two waits.
        waits = 3 if caller is asking else 1
        assert ended - began < usual + waits * EXTRA_SECONDS + AIR_SECONDS
    assert proxies[0].swallowed > 0
    cluster.check(cancelled=Promise(stops_within=1.0 + EXTRA_SECONDS))
    proxies[0].muted = False
