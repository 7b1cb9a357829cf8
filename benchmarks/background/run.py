"""Compare background calls with Celery alone, in turns: ``python -m benchmarks.background.run``.

Web process and load share the first core, worker and Redis the second. The first core also publishes
the jobs of Celery alone. Times are medians; every response is checked.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path

import psutil
import uvloop

from benchmarks.background import celery_alone as peer
from benchmarks.background import load
from benchmarks.processes import Process, cores
from mcp_app.streams.stores.message_queue import SyncMessageQueue
from tests.servers.live import LiveServer

CALLS = 40
REPORTS = 10
WINDOW = load.AT_ONCE
START_SECONDS = 20.0


@dataclass
class Measured:
    """The results of all rounds, in milliseconds and calls per second."""

    start: list[float] = field(default_factory=list)
    accepted: list[float] = field(default_factory=list)
    start_alone: list[float] = field(default_factory=list)
    progress: list[float] = field(default_factory=list)
    stop: list[float] = field(default_factory=list)
    rate: list[float] = field(default_factory=list)
    rate_alone: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Target:
    """One required bound on a figure."""

    text: str
    value: float
    bound: float
    at_least: bool = False

    @property
    def met(self) -> bool:
        return self.value >= self.bound if self.at_least else self.value <= self.bound


def emit(**facts: object) -> None:
    """Print one JSON object on its own line."""
    print(json.dumps(facts), flush=True)


def pin_all(pid: int, core: int) -> None:
    """Pin a running process, its threads and its children."""
    process = psutil.Process(pid)
    for each in (process, *process.children(recursive=True)):
        for thread in Path(f"/proc/{each.pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {core})


@contextmanager
def servers(folder: Path) -> Iterator[LiveServer]:
    """Run our server and the peer's worker, one child each, on one Redis server."""
    pins = cores()
    settings = "benchmarks.background.settings"
    with LiveServer(1, settings=settings, worker=True, concurrency=1, env={"DEMO": "off"}) as server:
        url = server.redis.url.rpartition("/")[0] + "/9"
        peer.app.conf.update(broker_url=url, result_backend=url)
        command = [sys.executable, "-m", "celery", "--quiet", "-A", "benchmarks.background.celery_alone",
                   "worker", "--concurrency", "1", "--without-gossip", "--without-mingle",
                   "--loglevel", "WARNING"]  # fmt: skip
        worker = Process(command, folder / "celery-alone.log", {"PEER_URL": url})
        worker.start()
        try:
            float(peer.start.apply_async().get(timeout=START_SECONDS))
            if pins:
                pin_all(server.processes[0].pid, pins[0])
                for pid in (server.worker_processes[0].pid, worker.pid, server.pids["redis"]):
                    pin_all(pid, pins[1])
                os.sched_setaffinity(0, {pins[0]})
            yield server
        finally:
            worker.stop()


def write_logs(server: LiveServer) -> None:
    """Wait until the worker has written the message log, which would need the next row's core."""
    queue = SyncMessageQueue(server.redis.url)
    while queue.read("0", 1):
        time.sleep(0.05)
    queue.close()


def _alone_seconds() -> float:
    sent = time.monotonic()
    return float(peer.start.apply_async().get(timeout=START_SECONDS)) - sent


def _alone_per_second(seconds: float) -> float:
    open_calls = deque(peer.start.apply_async() for _ in range(WINDOW))
    began, count = time.monotonic(), 0
    while time.monotonic() < began + seconds:
        float(open_calls.popleft().get(timeout=START_SECONDS))
        count += 1
        open_calls.append(peer.start.apply_async())
    rate = count / (time.monotonic() - began)
    for each in open_calls:
        each.get(timeout=START_SECONDS)
    return rate


def measure_round(server: LiveServer, number: int, seconds: float, found: Measured) -> None:
    """Measure each row once, with compared rows next to each other."""
    data = server.folder / "data"
    port = server.ports[0]
    with closing(load.open_session(server)) as client, closing(HTTPConnection("127.0.0.1", port)) as kept:
        for call in range(CALLS):
            posted, accepted = load.start_seconds(kept, client.headers(), call, data / "db.sqlite3")
            found.start.append(posted * 1e3)
            found.accepted.append(accepted * 1e3)
            found.start_alone.append(_alone_seconds() * 1e3)
        found.progress += [each * 1e3 for each in load.progress_seconds(client, number, REPORTS)]
        found.stop += [load.stop_seconds(client, call, data / "stopped") * 1e3 for call in range(3)]
        headers = {name: value for name, value in client.headers().items() if name != "Content-Type"}
        write_logs(server)
        rate = uvloop.run(load.calls_per_second(port, headers, seconds, f"rate-{number}"))
        found.rate.append(rate)
        client.delete()
    write_logs(server)
    found.rate_alone.append(_alone_per_second(seconds))
    emit(round=number + 1, start_ms=round(statistics.median(found.start[-CALLS:]), 2),
         accepted_ms=round(statistics.median(found.accepted[-CALLS:]), 2),
         start_alone_ms=round(statistics.median(found.start_alone[-CALLS:]), 2),
         progress_ms=round(statistics.median(found.progress[-REPORTS:]), 2),
         stop_ms=round(statistics.median(found.stop[-3:]), 2),
         per_second=round(found.rate[-1]), alone_per_second=round(found.rate_alone[-1]))  # fmt: skip


def judge(found: Measured) -> bool:
    """Compare with the targets and return True if all are met."""
    median = statistics.median
    posts, starts, rates = (
        median(a / b for a, b in zip(ours, alone, strict=True))
        for ours, alone in (
            (found.start, found.start_alone),
            (found.accepted, found.start_alone),
            (found.rate, found.rate_alone),
        )
    )
    emit(measured="POST to first line of the tool, as a multiple of Celery alone", value=round(posts, 2))
    targets = (
        Target("acceptance to first line of the tool, as a multiple of Celery alone", starts, 2.0),
        Target("ctx.progress to bytes at the client, ms", median(found.progress), 5.0),
        Target("cancel to stopped, ms", median(found.stop), 1000.0),
        Target("finished calls a second, as a share of Celery alone", rates, 0.8, at_least=True),
    )
    for target in targets:
        bound = {"at_least" if target.at_least else "at_most": target.bound}
        emit(target=target.text, value=round(target.value, 2), met=target.met, **bound)
    return all(target.met for target in targets)


def measure(rounds: int, seconds: float) -> bool:
    """Run all rounds and return True if every target is met."""
    before = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    found = Measured()
    try:
        with tempfile.TemporaryDirectory(prefix="mcp-bench-") as folder, servers(Path(folder)) as server:
            for number in range(rounds):
                measure_round(server, number, seconds, found)
    finally:
        if before is not None:
            os.sched_setaffinity(0, before)
    return judge(found)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    wanted = parser.parse_args(arguments)
    with suppress(KeyboardInterrupt):
        return 0 if measure(wanted.rounds, wanted.seconds) else 1
    return 130


if __name__ == "__main__":
    sys.exit(main())
