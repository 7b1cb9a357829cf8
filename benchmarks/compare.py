"""Compare this checkout with another one: ``python -m benchmarks.compare ../before``.

The servers of both checkouts run at the same time, each idle while the other is under load. Turns last
about a second and alternate (this, that, that, this), so that both see the same state of the machine. A
row is the median of the ratios of neighbouring turns: above 1, this checkout is better. The exit status
is 1 if a row is below ``--at-least``.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path

import uvloop

from benchmarks import load, scenarios, streams
from benchmarks.background import load as background
from benchmarks.background.run import pin_all, write_logs
from benchmarks.console import run as console
from benchmarks.console.viewer import sign_in
from benchmarks.processes import ROOT, cores
from benchmarks.servers import empty_log_queue, pin
from tests.servers.live import LiveServer, cpu_seconds

CONNECTIONS = 32
Figures = dict[str, float]
Turn = Callable[[LiveServer], Figures]
Ratios = dict[tuple[str, str], list[float]]


class Comparison:
    """A comparison of two checkouts in turns, with the ratios of neighbouring turns."""

    def __init__(self, base: Path) -> None:
        self.checkouts = (ROOT, base)
        self.ratios: Ratios = defaultdict(list)
        self._turns = 0

    @contextmanager
    def servers(self, **options: object) -> Iterator[tuple[LiveServer, LiveServer]]:
        """Run one server of each checkout."""
        with ExitStack() as stack:
            ours, base = (
                stack.enter_context(LiveServer(root=root, **options))  # type: ignore[arg-type]
                for root in self.checkouts
            )
            yield ours, base

    def take(self, row: str, servers: tuple[LiveServer, LiveServer], turn: Turn, rounds: int) -> None:
        """Let both take ``rounds`` turns after one warm-up turn."""
        for server in servers:
            turn(server)
        for _ in range(rounds):
            self.once(row, servers, turn)
        self.show(row)

    def once(self, row: str, servers: tuple[LiveServer, LiveServer], turn: Turn) -> None:
        """Take one turn of each, alternating the order."""
        self._turns += 1
        order = servers if self._turns % 2 else servers[::-1]
        said = {id(server): turn(server) for server in order}
        ours, base = (said[id(server)] for server in servers)
        for name in ours:
            self.ratios[row, name].append(_ratio(name, ours[name], base[name]))

    def show(self, row: str) -> None:
        """Print the figures of a row."""
        for (of, name), values in self.ratios.items():
            if of == row:
                low, high = min(values), max(values)
                print(
                    f"{row:<24}{name:<14}{statistics.median(values):>6.2f}  {low:.2f}-{high:.2f}", flush=True
                )

    def lows(self, at_least: float) -> list[tuple[str, str]]:
        """Return the rows whose median is lower than ``at_least``."""
        return [row for row, values in self.ratios.items() if statistics.median(values) < at_least]


def _ratio(name: str, ours: float, base: float) -> float:
    """Return a ratio above 1 if ours is better: a higher rate, or less of any other figure."""
    over, under = (ours, base) if name.endswith("per_second") else (base, ours)
    return over / under if under else 1.0


def _requests(script: Callable[[int], load.Script], seconds: float) -> Turn:
    def turn(server: LiveServer) -> Figures:
        port, pid = server.ports[0], server.processes[0].pid
        scripts = [script(port) for _ in range(CONNECTIONS)]
        measured = uvloop.run(load.drive(port, scripts, seconds, lambda: cpu_seconds(pid)))
        # As a worker would; it would need the load's core.
        empty_log_queue(server)
        return {"per_second": measured.per_second, "cpu_us": measured.cpu_microseconds}

    return turn


def compare_requests(comparison: Comparison, rounds: int, seconds: float, only: list[str]) -> None:
    """Compare repeated single requests; ``only`` these rows, or all."""
    echo, listed = scenarios.ECHO, scenarios.TOOLS_LIST
    check_echo, check_ten = scenarios.check_echo, scenarios.check_tools(10, paged=True)
    rows: dict[str, tuple[int, Callable[[int], load.Script]]] = {
        "tools/call echo": (10, lambda port: scenarios.repeated(port, echo, check_echo)),
        "ping": (10, lambda port: scenarios.repeated(port, scenarios.PING, scenarios.check_ping)),
        "tools/list 10": (10, lambda port: scenarios.repeated(port, listed, check_ten)),
        "session": (10, scenarios.sessions),
        "2026 tools/call": (10, lambda port: scenarios.alone(port, echo, check_echo)),
        "2026 tools/list 10": (10, lambda port: scenarios.alone(port, listed, check_ten)),
        "2026 discover": (
            10,
            lambda port: scenarios.alone(port, scenarios.DISCOVER, scenarios.check_discovery),
        ),
    }
    for size in (100, 1000):
        check = scenarios.check_tools(size, paged=True)
        rows[f"tools/list {size}"] = (
            size,
            lambda port, check=check: scenarios.repeated(port, listed, check),  # type: ignore[misc]
        )
    wanted = {row: facts for row, facts in rows.items() if not only or row in only}
    for size in sorted({of for of, _ in wanted.values()}):
        env = {"BENCH_TOOLS": str(size), "DEMO": "off"}
        with comparison.servers(web_processes=1, settings="benchmarks.settings", env=env) as servers:
            _pin_apart(servers)
            for row, (of, script) in wanted.items():
                if of == size:
                    comparison.take(row, servers, _requests(script, seconds), rounds)


def _pin_apart(servers: tuple[LiveServer, LiveServer]) -> None:
    """Pin web processes to the first core, Redis and the load to the second."""
    pins = cores()
    for server in servers if pins else ():
        assert pins is not None
        assert server.redis.process is not None
        pin(server.processes[0].pid, pins[0])
        pin(server.redis.process.pid, pins[1])


def compare_streams(comparison: Comparison, rounds: int, count: int) -> None:
    """Compare idle streams of both eras: their memory, and the delivery of a change to all."""
    fitting = streams.allow_open_files(count)
    for row, kind in (("GET streams", streams.Stream), ("listen streams", streams.Listener)):

        def turn(server: LiveServer, kind: type[streams.Stream] = kind) -> Figures:
            changer = streams.Changer(server.environment, server.root)
            try:
                port, pid = server.ports[0], server.processes[0].pid
                idle = uvloop.run(streams.measure(port, pid, fitting, changer.change, kind))
            finally:
                changer.stop()
            return {
                "kib_each": idle.bytes_each,
                "ms_last": idle.median("last"),
                "cpu_us": idle.median("cpu_us"),
            }

        env = {"BENCH_TOOLS": "10", "DEMO": "off"}
        for _ in range(rounds):
            # Memory is comparable only in new processes, so each turn starts its own.
            with comparison.servers(web_processes=1, settings="benchmarks.settings", env=env) as servers:
                _pin_apart(servers)
                comparison.once(row, servers, turn)
        comparison.show(row)


def compare_background(comparison: Comparison, rounds: int, seconds: float) -> None:
    """Compare calls that run in a worker: their latencies and the rate of completed calls."""
    pins = cores()

    def turn(server: LiveServer) -> Figures:
        data = server.folder / "data"
        with closing(background.open_session(server)) as client:
            headers = {name: value for name, value in client.headers().items() if name != "Content-Type"}
            with closing(HTTPConnection("127.0.0.1", server.ports[0])) as kept:
                starts = [
                    background.start_seconds(kept, client.headers(), call, data / "db.sqlite3")
                    for call in range(15)
                ]
            progress = background.progress_seconds(client, 0, 10)
            stops = [background.stop_seconds(client, call, data / "stopped") for call in range(3)]
            write_logs(server)
            rate = uvloop.run(background.calls_per_second(server.ports[0], headers, seconds, "rate"))
            client.delete()
        write_logs(server)
        return {
            "start_ms": statistics.median(start for start, _ in starts),
            "accepted_ms": statistics.median(accepted for _, accepted in starts),
            "progress_ms": statistics.median(progress),
            "stop_ms": statistics.median(stops),
            "per_second": rate,
        }

    settings = "benchmarks.background.settings"
    with comparison.servers(
        web_processes=1, settings=settings, worker=True, concurrency=1, env={"DEMO": "off"}
    ) as servers:
        if pins:
            for server in servers:
                pin_all(server.processes[0].pid, pins[0])
                pin_all(server.worker_processes[0].pid, pins[1])
                pin_all(server.pids["redis"], pins[1])
        comparison.take("background call", servers, turn, rounds)


def compare_tail(comparison: Comparison, rounds: int) -> None:
    """Compare how fast the pages of operators show a message."""
    with comparison.servers(
        web_processes=2, settings="benchmarks.settings", worker=True, concurrency=1, env={"DEMO": "off"}
    ) as servers:
        keys = {id(server): sign_in(server) for server in servers}

        def turn(server: LiveServer) -> Figures:
            seen = console.Seen()
            uvloop.run(console.watch(server, keys[id(server)], 3.0, seen))
            return {"p95_ms": sorted(seen.seconds)[int(len(seen.seconds) * 0.95)]}

        comparison.take("live tail", servers, turn, rounds)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", type=Path, help="a checkout of the commit to compare with")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--at-least", type=float, default=0.95)
    parser.add_argument("--only", choices=("requests", "streams", "background", "tail"))
    parser.add_argument(
        "--row", action="append", default=[], help="of the requests this row only; repeatable"
    )
    wanted = parser.parse_args(arguments)
    comparison = Comparison(wanted.base.resolve())
    parts: dict[str, tuple[int, Callable[[], None]]] = {
        "requests": (1, lambda: compare_requests(comparison, wanted.rounds, wanted.seconds, wanted.row)),
        "streams": (1, lambda: compare_streams(comparison, max(1, wanted.rounds // 3), wanted.streams)),
        "background": (0, lambda: compare_background(comparison, wanted.rounds, 2 * wanted.seconds)),
        "tail": (-1, lambda: compare_tail(comparison, max(1, wanted.rounds // 2))),
    }
    pins = cores()
    for name, (core, part) in parts.items():
        if wanted.only in (None, name):
            if pins:
                os.sched_setaffinity(0, {pins[core]} if core >= 0 else set(pins))
            part()
    lows = comparison.lows(wanted.at_least)
    print(f"below {wanted.at_least}: {', '.join(' '.join(row) for row in lows) or 'none'}")
    return 1 if lows else 0


if __name__ == "__main__":
    sys.exit(main())
