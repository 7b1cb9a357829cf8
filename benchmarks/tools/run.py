"""Measure common kinds of tools over sockets: ``python -m benchmarks.tools.run``.

Each server is alone on the first core while it is under load; its clients are on the second. The
queries use SQLite, with one file for all (``python -m benchmarks.threads`` uses PostgreSQL). In each
round all rows take turns; a ratio is the median of the rounds' ratios, each of rates measured within
seconds. ``busy`` is the share of its core that a server used: well below 1, the clients were the
bottleneck, not the server.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

from benchmarks import costs, floor, load, scenarios
from benchmarks.processes import Process, cores, free_port, load_core, uvicorn
from benchmarks.servers import empty_log_queue, pin
from tests.servers.live import LiveServer, cpu_seconds

CONNECTIONS = 32
NEVER_WAITS = "async, never waits"
LARGE = "a result of 100 KiB"
TOOLS = {
    NEVER_WAITS: "echo",
    "async, awaits": "echo_later",
    "async with Context": "echo_in_task",
    "sync": "echo_in_thread",
    "sync, one query": "query_in_thread",
    "async ORM": "query_later",
    LARGE: "large",
}
BARE = {
    "bare pool": "pool",
    "bare pool, one query": "pool_query",
    "bare async ORM": "awaited_query",
    f"{LARGE}, encoded and written": "large",
}
# The row to compare each kind of tool with, and the minimum ratio.
TARGETS = {
    "async, awaits": (NEVER_WAITS, 0.65),
    "async with Context": (NEVER_WAITS, 0.65),
    "sync": ("bare pool", 0.55),
    "sync, one query": ("bare pool, one query", 0.7),
    "async ORM": ("bare async ORM", 0.8),
    LARGE: (f"{LARGE}, encoded and written", 0.77),  # 1.3 times as much
}


@dataclass
class Row:
    """One kind of tool or bare application and its results by round."""

    script: Callable[[], load.Script]
    port: int
    pid: int
    connections: int = CONNECTIONS
    rates: list[float] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)

    def once(self, seconds: float) -> None:
        scripts = [self.script() for _ in range(self.connections)]
        measured = uvloop.run(load.drive(self.port, scripts, seconds, lambda: cpu_seconds(self.pid)))
        self.rates.append(measured.per_second)
        self.costs.append(measured.cpu_microseconds)


def emit(**facts: object) -> None:
    """Print one JSON object on its own line."""
    print(json.dumps(facts), flush=True)


def measure(rounds: int, seconds: float) -> bool:
    """Run all rounds and return True if every target is met."""
    pins = cores()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mcp-bench-")))
        server = stack.enter_context(LiveServer(1, settings="benchmarks.hops.settings", env={"DEMO": "off"}))
        if pins is not None and server.redis.process is not None:
            pin(server.processes[0].pid, pins[0])
            pin(server.redis.process.pid, pins[1])
        rows = {name: _tool(server, tool) for name, tool in TOOLS.items()}
        for name, application in BARE.items():
            rows[name] = stack.enter_context(_bare(folder, application, server.environment))
        stack.enter_context(load_core())
        large = [row for name, row in rows.items() if name.startswith(LARGE)]
        # Large responses leave much log to write when the next row starts, so they have their own rounds.
        for turn in ([row for row in rows.values() if row not in large], large):
            for number in range(rounds + 1):
                for row in turn:
                    row.once(seconds)
                    empty_log_queue(server)
                    if not number:  # The first round is a warm-up.
                        row.rates.clear()
                        row.costs.clear()
    return judge(rows)


def _tool(server: LiveServer, tool: str) -> Row:
    port = server.ports[0]
    message = {**scenarios.ECHO, "params": {**scenarios.ECHO["params"], "name": tool}}
    check = _check_large if tool == "large" else scenarios.check_echo
    return Row(lambda: scenarios.repeated(port, message, check), port, server.processes[0].pid)


def _check_large(reply: load.Reply) -> None:
    # Parsing all of it would take the clients longer than the server.
    if reply.status != 200 or len(reply.body) < 2 * costs.LARGE_BYTES:
        raise load.WrongAnswer(f"large: {reply.body[:300]!r}")


@contextmanager
def _bare(folder: Path, application: str, environment: dict[str, str]) -> Iterator[Row]:
    port, pins = free_port(), cores()
    command = uvicorn(f"benchmarks.tools.bare:{application}", port, lifespan="off")
    process = Process(command, folder / f"{application}.log", environment, pins[0] if pins else None)
    process.start()
    try:
        process.wait_for_port(port)
        body = costs.large_body(costs.large_structure()) if application == "large" else floor.BODY
        yield Row(lambda: scenarios.fixed(port, scenarios.ECHO, body), port, process.pid)
    finally:
        process.stop()


def judge(rows: dict[str, Row]) -> bool:
    """Print the rows, and each ratio with its required bound."""
    for name, row in rows.items():
        rate, cost = statistics.median(row.rates), statistics.median(row.costs)
        emit(work=name, server="ours" if name in TOOLS else "bare", rounds=len(row.rates),
             median_per_second=round(rate), median_cpu_us=round(cost, 1),
             busy=round(rate * cost / 1e6, 2))  # fmt: skip
    all_met = True
    for name, (base, at_least) in TARGETS.items():
        by_rate, by_cost = ratios_of(rows[name], rows[base])
        # Where the clients cannot saturate a server, its rate is not meaningful.
        met = min(by_rate, by_cost) >= at_least
        emit(target=f"{name}, against: {base}", ratio=round(by_rate, 2),
             ratio_by_processor_time=round(by_cost, 2), at_least=at_least, met=met)  # fmt: skip
        all_met = all_met and met
    return all_met


def ratios_of(over: Row, under: Row) -> tuple[float, float]:
    """Return the ratio of two rows, by rate and by the servers' processor time."""
    by_rate = statistics.median(a / b for a, b in zip(over.rates, under.rates, strict=True))
    costs = [a / b for a, b in zip(under.costs, over.costs, strict=True) if b]
    return by_rate, statistics.median(costs) if costs else by_rate


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.7)
    wanted = parser.parse_args(arguments)
    return 0 if measure(wanted.rounds, wanted.seconds) else 1


if __name__ == "__main__":
    sys.exit(main())
