"""R14: a full disk: nothing is accepted that cannot be stored; with free space, service resumes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.chaos.checker import Promise
from tests.chaos.cluster import Cluster
from tests.chaos.generator import Caller, call, open_session
from tests.clients.raw_http import Mcp
from tests.servers.live import eventually
from tests.servers.small_disk import no_room, small_disk

SIZE = "32m"
WORKING = 3


@pytest.fixture(params=["db", "redis"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Mount a small disk for the files of the database or of Redis."""
    folder = tmp_path / str(request.param)
    folder.mkdir()
    with small_disk(folder, SIZE):
        yield folder


@contextmanager
def _no_room(cluster: Cluster, disk: Path) -> Iterator[None]:
    with no_room(disk):
        cluster.strike(f"no room on the disk of {disk.name}")
        yield


def _refused(cluster: Cluster, session: Mcp) -> tuple[Caller, list[Caller]]:
    """Return the first refused call, and earlier ones that fitted into existing files."""
    lucky: list[Caller] = []
    for number in range(200):
        caller = call(cluster, session, f"new-{number}", "work_once", steps=1, patience=120)
        heard = partial(cluster.history.of, caller.nonce, "accepted", "refused")
        eventually(heard, 10, "acceptance or refusal")
        if cluster.history.of(caller.nonce, "refused"):
            return caller.join(), lucky
        lucky.append(caller)
    raise AssertionError("nothing is refused")


def test_accepted_calls_survive_full_disk_and_new_calls_are_refused(
    disk: Path, start_cluster: Callable[..., Cluster]
) -> None:
    where = {"env": {"DATABASE_URL": f"sqlite:///{disk}/db.sqlite3"}} if disk.name == "db" else {}
    cluster = start_cluster(
        concurrency=WORKING + 1, redis_folder=disk if disk.name == "redis" else None, **where
    )
    session = open_session(cluster)
    worker = cluster.worker_processes[0].pid
    working = [
        call(cluster, session, f"work-{number}", "work_once", steps=80, patience=120)
        for number in range(WORKING)
    ]
    for caller in working:
        cluster.wait_for(caller.nonce, number=3)
    with _no_room(cluster, disk):
        refused, lucky = _refused(cluster, session)
        assert cluster.history.of(refused.nonce, "refused")[0].text.startswith("503")
        for caller in working:
            cluster.wait_for(caller.nonce, "end")
    for caller in (*working, *lucky):
        caller.join()
        assert cluster.history.of(caller.nonce, "answer"), cluster.history.of(caller.nonce)[-3:]
    later = call(cluster, session, "later", "work_once", steps=3, retry_refused=True).join()
    assert later.answered
    assert cluster.worker_processes[0].alive
    assert cluster.worker_processes[0].pid == worker
    cluster.check(Promise(complete=False))
    assert cluster.lines(refused.nonce) == []
