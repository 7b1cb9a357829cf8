"""R26, in minutes: thousands of calls under kills and cancels leave nothing behind."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import psutil

from mcp_app.streams.connections.keys import PATTERNS
from tests.chaos.checker import Promise
from tests.chaos.cluster import Cluster, again_and_again
from tests.chaos.generator import Caller, open_session
from tests.servers.live import eventually

CALLS = 2_000
WARM = 100
AT_ONCE = 24
KILL_SECONDS = 4.0
CANCELLED = 0.1
# The number of those that start programs.
PROGRAMS = 0.3
QUIET_SECONDS = 60.0
# Celery's own keys: its queue and the names of its exchanges.
BROKER_KEYS = ("_kombu.", "unacked", "celery")
OPEN_ROWS = """
from mcp_app.models import Call
from django.db.models import Q
import json
over = Call.objects.filter(state__in=["completed", "failed", "cancelled"])
print(json.dumps([Call.objects.count() - over.count(), over.exclude(lease_until=None).count(),
                  over.filter(published=False).count()]))
"""


def _make_calls(cluster: Cluster, mark: str, count: int) -> None:
    """Make many short calls concurrently; cancel some while they wait or run."""
    session = open_session(cluster)
    seeds = [cluster.rng.random() for _ in range(count)]

    def one(number: int) -> None:
        rng = random.Random(seeds[number])
        steps = {"steps": rng.randint(1, 3), "delay": 0.02}
        caller = Caller(cluster, session, f"{mark}-{number}", "work", steps, patience=120, cuts=0.02)
        caller.retry_refused, caller.rng = True, rng
        patience, cancel = 0.3, None
        if (is_cancelled := rng.random() < CANCELLED) and rng.random() < PROGRAMS:
            # Its programs take a while to start, and it ends them itself.
            caller.tool, caller.arguments, patience = "forget_programs", {"seconds": 2}, 3.0
        if is_cancelled:
            cancel = threading.Timer(rng.uniform(0, patience), caller.cancel)
            cancel.start()
        caller.run()
        assert caller.answered, caller.nonce
        if cancel is not None:
            cancel.join()

    with ThreadPoolExecutor(AT_ONCE) as clients:
        list(clients.map(one, range(count)))


def _held(cluster: Cluster) -> dict[str, tuple[int, int]]:
    """Return threads and descriptors of every process that must survive the run."""
    worker = cluster.worker_processes[0].pid
    pids = {"web": cluster.processes[0].pid, "worker": worker}
    processes = {name: psutil.Process(pid) for name, pid in pids.items()}
    return {name: (each.num_threads(), each.num_fds()) for name, each in processes.items()}


def _grown(cluster: Cluster, before: dict[str, tuple[int, int]]) -> list[str]:
    """Return processes whose counts grew by more than chance: a leak adds hundreds."""
    after = _held(cluster)
    return [
        f"{name}: (threads, descriptors) were {before[name]}, are {after[name]}"
        for name in before
        if after[name][0] > before[name][0] + 4 or after[name][1] > before[name][1] + 15
    ]


def test_thousands_of_calls_under_kills_and_cancels_leave_nothing_behind(
    start_cluster: Callable[..., Cluster], rng: random.Random
) -> None:
    cluster = start_cluster(concurrency=4)
    worker = cluster.worker_processes[0]
    # By then, every process has created its one-time resources, including those for helping a call.
    with again_and_again(lambda: cluster.kill(worker.children[0], "worker child"), 1.0):
        _make_calls(cluster, "warm", WARM)
    _wait_for_quiet(cluster)
    before = _held(cluster)

    def kill_something() -> None:
        if rng.random() < 0.3:
            cluster.kill_web(1)
            cluster.revive_web(1)
        elif children := worker.children:
            cluster.kill(rng.choice(children), "worker child")

    with again_and_again(kill_something, KILL_SECONDS):
        _make_calls(cluster, "call", CALLS)
    assert len(cluster.faults) >= 5
    cluster.check(Promise(most_starts=3))
    assert cluster.history.count("cancel") > CALLS * CANCELLED / 2
    _wait_for_quiet(cluster)
    assert json.loads(cluster.shell(OPEN_ROWS).strip().splitlines()[-1]) == [0, 0, 0]
    with cluster.redis_client() as client:
        keys = {key.decode(): int(str(client.ttl(key))) for key in client.scan_iter()}
    ours = {key: ttl for key, ttl in keys.items() if not key.startswith(BROKER_KEYS)}
    assert [key for key, ttl in ours.items() if ttl < 0] == []
    assert [key for key in ours if not any(pattern.fullmatch(key) for pattern in PATTERNS)] == []
    eventually(lambda: len(worker.children) == 4, 10, "four children")
    with suppress(AssertionError):
        eventually(lambda: not _grown(cluster, before), QUIET_SECONDS)
    assert _grown(cluster, before) == []
    programs = [line.number for line in cluster.lines(what="program")]
    assert programs
    family = {worker.pid, *worker.members, *(web.pid for web in cluster.processes)}
    with suppress(AssertionError):
        eventually(lambda: not _left(programs, family), QUIET_SECONDS)
    assert _left(programs, family) == []
    worker.stop()
    assert cluster.left_behind() == []


def _left(programs: list[int], family: set[int]) -> list[str]:
    """Return remaining programs of tools; a process id may have been reused by a foreign program."""
    found = []
    for pid in programs:
        with suppress(psutil.Error):
            process = psutil.Process(pid)
            dead = process.status() == psutil.STATUS_ZOMBIE and process.ppid() in family
            if dead or "time.sleep(600)" in " ".join(process.cmdline()):
                found.append(f"{pid} below {process.ppid()}: {process.status()}")
    return found


def _noise(cluster: Cluster) -> list[str]:
    """Return remaining activity: waiting or unacknowledged jobs and connected clients."""
    with cluster.redis_client() as client:
        waiting, unacked = int(str(client.llen("celery"))), client.hgetall("unacked")
    sockets = psutil.Process(cluster.processes[0].pid).net_connections("tcp")
    return [
        *(f"job {job.decode()[:400]}" for job in unacked.values()),  # type: ignore[union-attr]
        *([f"{waiting} jobs"] if waiting else ()),
        *(
            str(each)
            for each in sockets
            if each.status == psutil.CONN_ESTABLISHED and each.laddr.port in cluster.ports
        ),
    ]


def _wait_for_quiet(cluster: Cluster) -> None:
    with suppress(AssertionError):
        eventually(lambda: not _noise(cluster), QUIET_SECONDS)
    assert _noise(cluster) == []
