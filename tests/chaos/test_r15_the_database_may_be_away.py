"""R15: database locked or stopped: new calls are refused fast, running ones survive, nothing runs twice."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.bounds import SLACK
from tests.chaos.checker import Promise
from tests.chaos.cluster import Cluster
from tests.chaos.generator import call, open_session
from tests.servers import postgres
from tests.servers.live import eventually

OUTAGE_SECONDS = 45.0  # Three times as long as a lease.
POINTS = ("after-accept", "before-claim", "after-claim", "before-append", "before-store", "after-store")
STEPS = {"steps": 2, "delay": 0.05, "patience": 120}
REFUSED_SECONDS = 2.0

Outage = Callable[[], AbstractContextManager[None]]


@pytest.fixture(params=["sqlite", "postgresql"])
def cluster_and_outage(
    request: pytest.FixtureRequest, start_cluster: Callable[..., Cluster]
) -> Iterator[tuple[Cluster, Outage]]:
    if request.param == "sqlite":
        cluster = start_cluster(concurrency=len(POINTS) + 1)
        yield cluster, cluster.locked_database
        return
    if postgres.binaries() is None:
        pytest.skip("no PostgreSQL binaries")
    folder = Path(tempfile.mkdtemp(prefix="mcp-pg-"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        database = stack.enter_context(postgres.PostgreSQL(folder))
        database.create_tables()
        cluster = start_cluster(concurrency=len(POINTS) + 1, env={"DATABASE_URL": database.url})

        @contextmanager
        def stopped() -> Iterator[None]:
            database.stop()
            cluster.strike("stop postgresql")
            yield
            database.start()

        yield cluster, stopped
        # Before the database, which does not wait for clients.
        cluster.stop()


def test_running_calls_survive_database_outage_and_new_ones_fail_fast(
    cluster_and_outage: tuple[Cluster, Outage], rng: random.Random
) -> None:
    cluster, outage = cluster_and_outage
    session = open_session(cluster)
    # The outage meets one call between any two steps, one that ends during it and one that outlasts it.
    for point in POINTS:
        cluster.arm(point)
    held = [call(cluster, session, f"held-{number}", "work_once", **STEPS) for number in range(len(POINTS))]
    assert len({cluster.held_at(point) for point in POINTS}) == len(POINTS)
    short = call(cluster, session, "short", "work_once", steps=50, patience=120)
    long = call(cluster, session, "long", "work_once", steps=560, patience=120)
    cluster.wait_for("short", number=3)
    cluster.wait_for("long", number=3)
    with outage():
        began = time.monotonic()
        for point in POINTS:
            cluster.let_go(point)
        refused = call(cluster, session, "refused", "work_once", steps=1, patience=20).join()
        refusal = cluster.history.of("refused", "refused")[0]
        assert refusal.text.startswith("503")
        assert refusal.at - cluster.history.of("refused", "posted")[0].at < REFUSED_SECONDS + SLACK
        assert not refused.answered
        time.sleep(max(0.0, began + OUTAGE_SECONDS - time.monotonic()))
        assert cluster.lines("short", "end")
        assert not cluster.history.of("short", "answer")
    for caller in (*held, short, long):
        caller.join()
        assert cluster.history.of(caller.nonce, "answer"), cluster.history.of(caller.nonce)[-3:]
    again = call(cluster, session, "refused", "work_once", steps=1).join()
    assert again.answered
    cluster.check(Promise(most_starts=1))


def test_cancel_reaches_call_while_database_is_locked(
    start_cluster: Callable[..., Cluster],
) -> None:
    cluster = start_cluster()
    session = open_session(cluster)
    caller = call(cluster, session, "r15", "work_once", steps=900, patience=120)
    cluster.wait_for("r15", number=3)
    with cluster.locked_database():
        asked = time.monotonic()
        caller.cancel()
        eventually(lambda: cluster.lines("r15", "stopped"), REFUSED_SECONDS + SLACK, "the end of the work")
        assert time.monotonic() - asked < REFUSED_SECONDS + SLACK
    caller.join()
    assert cluster.history.of("r15", "error")
