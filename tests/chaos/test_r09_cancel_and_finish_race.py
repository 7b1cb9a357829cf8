"""R9: whichever of cancel and finish wins, there is one outcome and nothing follows it."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

from tests.chaos.cluster import Cluster
from tests.chaos.generator import call, open_session

ROUNDS = 80


def test_cancel_racing_with_finish_gives_one_outcome(
    start_cluster: Callable[..., Cluster], rng: random.Random
) -> None:
    cluster = start_cluster(concurrency=4)
    session = open_session(cluster)
    places = threading.Semaphore(4)

    def one(number: int, delay: float) -> None:
        with places:
            caller = call(cluster, session, f"r9-{number}", "work_once", steps=2, delay=0.05)
            time.sleep(delay)
            caller.cancel()
            caller.join()
            assert caller.answered

    threads = [
        threading.Thread(target=one, args=(number, rng.uniform(0.05, 0.25))) for number in range(ROUNDS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    cluster.check()
    answers, errors = cluster.history.count("answer"), cluster.history.count("error")
    assert answers + errors == ROUNDS
    # Each won some of the races.
    assert answers >= 5
    assert errors >= 5
