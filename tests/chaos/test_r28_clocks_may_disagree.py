"""R28: with machine clocks seconds or hours apart, no call is considered lost or started twice."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.chaos.checker import Promise
from tests.chaos.cluster import Cluster
from tests.chaos.generator import call, open_session
from tests.servers import postgres
from tests.servers.live import ROOT

# Clock offsets in seconds of web process B and of worker 2.
OFF = [pytest.param((30, -30), marks=pytest.mark.quick), (-30, 30), (3_600, -3_600), (-3_600, 3_600)]
LIBFAKETIME = "/usr/lib/*/faketime/libfaketimeMT.so.1"
# Longer than a lease.
STEPS = {"steps": 170, "delay": 0.1, "patience": 120}

Elsewhere = Callable[[float], dict[str, str]]


def _off_in_python(seconds: float) -> dict[str, str]:
    return {"PYTHONPATH": str(ROOT / "tests" / "other_clock"), "CLOCK_OFF": str(seconds)}


def _off_for_all(library: Path, seconds: float) -> dict[str, str]:
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME": f"{seconds:+g}s",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


@pytest.fixture
def database() -> Iterator[postgres.PostgreSQL]:
    if postgres.binaries() is None:
        pytest.skip("no PostgreSQL binaries")
    folder = Path(tempfile.mkdtemp(prefix="mcp-pg-"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        running = stack.enter_context(postgres.PostgreSQL(folder))
        running.create_tables()
        yield running


def _no_call_is_harmed(cluster: Cluster, elsewhere: Elsewhere, off: tuple[float, float]) -> None:
    web, worker = cluster.processes[1], cluster.worker_processes[1]
    web.stop()
    web.start(cluster.shared, {**cluster.environment, **elsewhere(off[0])})
    worker.stop()
    worker.start({**cluster.environment, **elsewhere(off[1])})
    cluster.wait_until_healthy(web)
    cluster.wait_until_ready()
    cluster.strike(f"clocks of web B and worker 2 off by {off} s")
    session = open_session(cluster, process=1)
    callers = [
        call(cluster, session, f"{tool}-{number}", tool, ports=[cluster.ports[number % 2]], **STEPS)
        for tool in ("work", "work_once")
        for number in range(2)
    ]
    for caller in callers:
        caller.join()
        assert cluster.history.of(caller.nonce, "answer"), cluster.history.of(caller.nonce)[-3:]
    ran = {line.pid for line in cluster.lines()}
    assert ran & set(worker.children), "nothing ran where the clock is off"
    assert ran - set(worker.children), "nothing ran where it is not"
    cluster.check(Promise(most_starts=1))


@pytest.mark.parametrize("off", OFF)
def test_skewed_process_clocks_harm_no_call(
    start_cluster: Callable[..., Cluster], off: tuple[float, float]
) -> None:
    _no_call_is_harmed(start_cluster(workers=2, concurrency=2), _off_in_python, off)


@pytest.mark.parametrize("off", [(30, -30), (3_600, -3_600)])
def test_skewed_machine_clocks_harm_no_call(
    database: postgres.PostgreSQL, start_cluster: Callable[..., Cluster], off: tuple[float, float]
) -> None:
    library = next(Path("/").glob(LIBFAKETIME.lstrip("/")), None)
    if library is None:
        pytest.skip("no libfaketime on this machine (Debian: apt install libfaketime)")
    cluster = start_cluster(workers=2, concurrency=2, env={"DATABASE_URL": database.url})
    _no_call_is_harmed(cluster, lambda seconds: _off_for_all(library, seconds), off)
    # Before the database, which does not wait for clients.
    cluster.stop()
