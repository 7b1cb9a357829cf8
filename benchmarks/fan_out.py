"""One change delivered to thousands of streams, and the TypeScript SDK: ``python -m benchmarks.fan_out``.

Each server is alone on the server's core; its clients and Redis are on the other. Streams of both eras.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import uvloop

from benchmarks import streams
from benchmarks.processes import load_core
from benchmarks.servers import Servers
from tests.clients.node import NodeUnavailable

ERAS = {"GET stream": streams.Stream, "listen stream": streams.Listener}
# The bounds for each era: for the first and the last of all clients, for each stream, for other callers.
MOST_OF_PEER = 0.8
MOST_FIRST_MS = 50.0
MOST_CPU_US = 25.0
MOST_WAITED_MS = 20.0
Measured = dict[str, list[streams.Idle]]
Running = Iterator[tuple[int, int, Callable[[], float]]]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--era", default="", help="only streams whose name has this in it")
    parser.add_argument("--no-peer", action="store_true", help="measure our server alone")
    wanted = parser.parse_args(arguments)
    eras = [era for era in ERAS if wanted.era in era]
    return 0 if measure(wanted.streams, wanted.rounds, eras, peer=not wanted.no_peer) else 1


def measure(wanted: int, rounds: int, eras: Iterable[str] = ERAS, *, peer: bool = True) -> bool:
    """Deliver changes to ``wanted`` streams of each server, in each era.

    Return True if every target is met.
    """
    count = streams.allow_open_files(wanted)
    met = True
    for era in eras:
        measured: Measured = {}
        for _ in range(rounds):
            # Each round uses new processes, one at a time: thousands of idle streams cause load, too.
            for server in (ours, typescript)[: 2 if peer else 1]:
                try:
                    with server() as (port, pid, change):
                        idle = uvloop.run(streams.measure(port, pid, count, change, ERAS[era]))
                except NodeUnavailable as missing:
                    emit(server=server.__name__, not_measured=str(missing))
                    continue
                measured.setdefault(server.__name__, []).append(idle)
                report(era, server.__name__, idle)
        met = judge(era, measured) and met
    return met


def emit(**facts: object) -> None:
    """Print one JSON object on its own line."""
    print(json.dumps(facts), flush=True)


def report(era: str, server: str, idle: streams.Idle) -> None:
    """Print the results of one round: medians of its changes."""
    emit(work=f"change told to {era}s", server=server, streams=idle.streams,
         kib_each=round(idle.bytes_each / 1024, 1), ms_first=round(idle.median("first"), 1),
         ms_half=round(idle.median("half"), 1), ms_last=round(idle.median("last"), 1),
         cpu_us_each=round(idle.median("cpu_us"), 1), others_p99_ms=round(idle.waited_p99, 1))  # fmt: skip


def judge(era: str, measured: Measured) -> bool:
    """Compare the medians of all rounds with the bounds."""
    own = measured["ours"]
    asked = [
        ("ms of the first", _median(own, "first"), MOST_FIRST_MS),
        ("us of processor for each", _median(own, "cpu_us"), MOST_CPU_US),
        ("p99 ms of other requests", statistics.median(idle.waited_p99 for idle in own), MOST_WAITED_MS),
    ]
    if "typescript" in measured:
        limit = MOST_OF_PEER * _median(measured["typescript"], "last")
        asked.append(("ms of the last", _median(own, "last"), limit))
    for text, found, limit in asked:
        emit(target=f"{era}: {text}", found=round(found, 1), at_most=round(limit, 1), met=found <= limit)
    return all(found <= limit for _, found, limit in asked)


def _median(rounds: list[streams.Idle], figure: str) -> float:
    return statistics.median(idle.median(figure) for idle in rounds)


@contextmanager
def ours() -> Running:
    """Run our server with ten tools, and another process that edits one of them."""
    with _servers() as servers:
        port = servers.start_ours(10, BENCH_KEEP_ALIVE="300")
        with load_core():
            changer = streams.Changer(servers.ours[10].environment)
            try:
                yield port, servers.pid(port), changer.change
            finally:
                changer.stop()


@contextmanager
def typescript() -> Running:
    """Run the official TypeScript SDK with as many tools, changing one of its own."""
    with _servers() as servers:
        port = servers.start_typescript()

        def change() -> float:
            at = time.monotonic()
            urllib.request.urlopen(f"http://127.0.0.1:{port}/change", timeout=streams.TOLD_SECONDS).close()
            return at

        with load_core():
            yield port, servers.pid(port), change


@contextmanager
def _servers() -> Iterator[Servers]:
    with tempfile.TemporaryDirectory(prefix="mcp-bench-") as folder:
        servers = Servers(Path(folder))
        try:
            yield servers
        finally:
            servers.stop()


if __name__ == "__main__":
    sys.exit(main())
