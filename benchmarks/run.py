"""Measure the server in interleaved rounds and print ratios: ``python -m benchmarks.run``."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

from benchmarks import exposing, fan_out, floor, identity, load, scenarios, streams, threads
from benchmarks.background import run as background
from benchmarks.console import run as console
from benchmarks.http_tools import run as http_tools
from benchmarks.processes import ROOT, cores, load_core
from benchmarks.relay import run as relay
from benchmarks.servers import SIZES, Servers
from benchmarks.tools import run as tools
from tests.servers.live import cpu_seconds

CONNECTIONS = 32
WARM_SECONDS = 3.0
CONDITIONS = {
    "server": "uvicorn, uvloop, httptools; one process for each row, on the first core",
    "load": "keep-alive connections on the second core; Redis is there too",
    "ours": "sessions, message log on, access log off, MCP_AUTH=loopback; Host and Origin checked",
    "sdk": "mcp 2.3: sessions, JSON answers, logging off",
    "typescript": "server 2.4 on node:http: no sessions, Host and Origin checked; one process and core",
    "session": "one operation is initialize + initialized + DELETE",
}


@dataclass
class Row:
    """One measured row: its server and, by round, the operations per second."""

    work: str
    server: str
    script: Callable[[], load.Script]
    port: int
    pid: int
    rates: list[float] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.rates)

    @property
    def cost(self) -> float:
        """Median processor time of the server per operation, in microseconds."""
        return statistics.median(self.costs)

    def once(self, seconds: float) -> None:
        scripts = [self.script() for _ in range(CONNECTIONS)]
        measured = uvloop.run(load.drive(self.port, scripts, seconds, lambda: cpu_seconds(self.pid)))
        self.rates.append(measured.per_second)
        self.costs.append(measured.cpu_microseconds)

    def warm(self) -> None:
        """Warm up just-in-time compilers without counting the operations."""
        self.once(WARM_SECONDS)
        self.rates.clear()
        self.costs.clear()


@dataclass(frozen=True, slots=True)
class Target:
    """One required bound on a median ratio of our row to the fastest other row."""

    text: str
    over: tuple[str, str]
    under: tuple[tuple[str, str], ...]
    at_least: float


def _modern(work: str, text: str) -> Target:
    """Return the target of 2026-07-28 against both official SDKs."""
    peers = ((work, "sdk"), (work, "typescript"))
    return Target(f"{text} against the faster SDK", (work, "ours"), peers, 3.0)


TARGETS = (
    Target("tools/call against the SDK", ("tools/call echo", "ours"), (("tools/call echo", "sdk"),), 4.0),
    Target("tools/list (10) against the SDK", ("tools/list 10", "ours"), (("tools/list 10", "sdk"),), 5.0),
    _modern("2026 tools/call", "tools/call of 2026-07-28"),
    _modern("2026 tools/list 10", "tools/list of 2026-07-28"),
    _modern("2026 discover", "server/discover"),
    Target("tools/call against the floor", ("tools/call echo", "ours"), (("fixed body", "floor"),), 0.4),
    Target("sessions against the floor", ("session", "ours"), (("fixed body", "floor"),), 0.14),
    Target("first page of 1,000 tools against 100", ("tools/list 1000", "ours"),
           (("tools/list 100", "ours"),), 1 / 1.5),
)  # fmt: skip
MOST_KIB = 25.0
MOST_FAN_OUT_MS = 1_000.0


def rows(servers: Servers) -> list[Row]:
    """Return all rows in the order of a round."""
    found = []

    def add(work: str, server: str, port: int, make: Callable[[int], load.Script]) -> None:
        found.append(Row(work, server, lambda: make(port), port, servers.pid(port)))

    ours = ("ours", servers.port(10))
    peers = (ours, ("sdk", servers.sdk))
    stateless = () if servers.typescript is None else (("typescript", servers.typescript),)
    # Compared rows are neighbours, so that changes in the machine's load affect both alike.
    add("fixed body", "floor", servers.floor, lambda port: scenarios.fixed(port, scenarios.ECHO, floor.BODY))
    for server, port in peers:
        add("tools/call echo", server, port, _repeating(scenarios.ECHO, scenarios.check_echo))
    for server, port in peers:
        add("ping", server, port, _repeating(scenarios.PING, scenarios.check_ping))
    for server, port in peers:
        add("tools/list 10", server, port, _listing(10, paged=server == "ours"))
    for size in SIZES[1:]:
        add(f"tools/list {size}", "ours", servers.port(size), _listing(size, paged=True))
    for server, port in peers:
        add("session", server, port, scenarios.sessions)
    for work, message, check in (
        ("2026 tools/call", scenarios.ECHO, lambda paged: scenarios.check_echo),
        ("2026 tools/list 10", scenarios.TOOLS_LIST, lambda paged: scenarios.check_tools(10, paged=paged)),
        ("2026 discover", scenarios.DISCOVER, lambda paged: scenarios.check_discovery),
    ):
        for server, port in (*peers, *stateless):
            add(work, server, port, _alone(message, check(server == "ours")))
    return found


def _alone(message: dict[str, object], check: Callable[[load.Reply], None]) -> Callable[[int], load.Script]:
    return lambda port: scenarios.alone(port, message, check)


def _repeating(
    message: dict[str, object], check: Callable[[load.Reply], None]
) -> Callable[[int], load.Script]:
    return lambda port: scenarios.repeated(port, message, check)


def _listing(size: int, *, paged: bool) -> Callable[[int], load.Script]:
    return _repeating(scenarios.TOOLS_LIST, scenarios.check_tools(size, paged=paged))


def emit(**facts: object) -> None:
    """Print one JSON object on its own line."""
    print(json.dumps(facts), flush=True)


def told(servers: Servers, count: int, kind: type[streams.Stream]) -> streams.Idle:
    """Open streams to our server with ten tools, and change one of these."""
    port = servers.port(10)
    fitting = streams.allow_open_files(count)
    changer = streams.Changer(servers.ours[10].environment)
    try:
        return uvloop.run(streams.measure(port, servers.pid(port), fitting, changer.change, kind))
    finally:
        changer.stop()


def idle_streams(servers: Servers, count: int) -> bool:
    """Measure the memory of idle streams on both servers, and the delivery time of a change on ours."""
    ours = told(servers, count, streams.Stream)
    sdk = uvloop.run(streams.measure(servers.sdk, servers.pid(servers.sdk), ours.streams, None))
    for name, idle in (("ours", ours), ("sdk", sdk)):
        emit(
            work="idle GET stream",
            server=name,
            streams=idle.streams,
            kib_each=round(idle.bytes_each / 1024, 1),
        )
    emit(work="catalogue change told", server="ours", streams=ours.streams,
         ms_half=round(ours.median("half"), 1), ms_last=round(ours.median("last"), 1),
         changes=len(ours.changes))  # fmt: skip
    return ours.bytes_each / 1024 <= MOST_KIB


def listeners(servers: Servers, count: int) -> bool:
    """Deliver one change to many subscriptions of 2026-07-28, all at one process.

    The slowest change counts.
    """
    idle = told(servers, count, streams.Listener)
    last = max(each.last for each in idle.changes)
    met = last <= MOST_FAN_OUT_MS
    emit(work="idle listen stream", server="ours", streams=idle.streams,
         kib_each=round(idle.bytes_each / 1024, 1))  # fmt: skip
    emit(target=f"ms of listen fan-out of one change to {idle.streams:,} streams",
         half=round(idle.median("half"), 1), last=round(last, 1),
         at_most=MOST_FAN_OUT_MS, met=met)  # fmt: skip
    return met


def table(found: list[Row]) -> None:
    """Print a table of the medians."""
    by_work: dict[str, dict[str, Row]] = {}
    for row in found:
        by_work.setdefault(row.work, {})[row.server] = row
    base = by_work["fixed body"]["floor"]
    print(
        f"\n{'work':<18}{'ours/s':>10}{'sdk/s':>10}{'ours:sdk':>10}{'ts/s':>10}{'ours:ts':>10}"
        f"{'of floor':>10}{'ours cpu us':>13}"
    )
    for work, servers in by_work.items():
        ours = servers.get("ours")
        first = ours or next(iter(servers.values()))
        shown = f"{first.median:,.0f}".rjust(10)
        for name in ("sdk", "typescript"):
            peer = servers.get(name)
            shown += f"{peer.median:>10,.0f}" if peer else " " * 10
            shown += f"{ratio_of(ours, peer):>10.1f}" if ours and peer else " " * 10
        print(f"{work:<18}{shown}{ratio_of(first, base):>10.0%}{first.cost:>13.1f}")


def ratio_of(over: Row, under: Row) -> float:
    """Return the median of the rounds' ratios. Each round compares rates measured within seconds."""
    # Skip rounds in which a starved machine completed no operation of the other.
    return statistics.median(a / b for a, b in zip(over.rates, under.rates, strict=True) if b)


def judge(found: list[Row]) -> bool:
    """Compare with the targets and return True if all are met."""
    rows_by_name = {(row.work, row.server): row for row in found}
    met = True
    for target in TARGETS:
        measured = [name for name in target.under if name in rows_by_name]
        ratio = min(ratio_of(rows_by_name[target.over], rows_by_name[name]) for name in measured)
        good = ratio >= target.at_least
        met = met and good
        emit(target=target.text, ratio=round(ratio, 2), at_least=round(target.at_least, 2), met=good,
             beside=[server for _, server in measured])  # fmt: skip
    return met


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.8)
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--background-rounds", type=int, default=5)
    parser.add_argument("--background-seconds", type=float, default=3.0)
    parser.add_argument("--identity-rounds", type=int, default=9)
    parser.add_argument("--tool-rounds", type=int, default=5)
    parser.add_argument("--http-tool-rounds", type=int, default=9)
    parser.add_argument("--relay-rounds", type=int, default=9)
    parser.add_argument("--thread-rounds", type=int, default=2)
    parser.add_argument("--fan-out-rounds", type=int, default=1)
    parser.add_argument("--fan-out-streams", type=int, default=5000)
    parser.add_argument("--console-rounds", type=int, default=3)
    parser.add_argument("--console-seconds", type=float, default=5.0)
    wanted = parser.parse_args(arguments)
    streams.allow_open_files(wanted.streams)
    pins = cores()
    emit(connections=CONNECTIONS, rounds=wanted.rounds, seconds=wanted.seconds, cores=pins, **CONDITIONS)
    with tempfile.TemporaryDirectory(prefix="mcp-bench-") as folder:
        servers = Servers(Path(folder))
        try:
            servers.start()
            if servers.missing:
                emit(server="typescript", not_measured=servers.missing)
            with load_core():
                met = measure(servers, wanted)
        finally:
            servers.stop()
    met = tools.measure(wanted.tool_rounds, wanted.seconds) and met
    met = http_tools.measure(wanted.http_tool_rounds, wanted.seconds) and met
    met = relay.measure(wanted.relay_rounds, wanted.seconds) and met
    met = threads.measure_all([ROOT], wanted.thread_rounds, wanted.seconds) and met
    met = fan_out.measure(wanted.fan_out_streams, wanted.fan_out_rounds) and met
    met = exposing.measure() and met
    met = identity.measure(wanted.identity_rounds, wanted.seconds) and met
    met = background.measure(wanted.background_rounds, wanted.background_seconds) and met
    return 0 if console.measure(wanted.console_rounds, wanted.console_seconds) and met else 1


def measure(servers: Servers, wanted: argparse.Namespace) -> bool:
    """Run all rounds, then the streams. Return True if every target is met."""
    found = rows(servers)
    for row in found:
        if row.server == "typescript":
            row.warm()
    for number in range(wanted.rounds):
        for row in found:
            row.once(wanted.seconds)
            servers.write_logs()
            emit(work=row.work, server=row.server, round=number + 1, per_second=round(row.rates[-1]),
                 cpu_us=round(row.costs[-1], 1))  # fmt: skip
    small = idle_streams(servers, wanted.streams)
    fast = listeners(servers, wanted.streams)
    for row in found:
        emit(work=row.work, server=row.server, median_per_second=round(row.median), rounds=len(row.rates),
             median_cpu_us=round(row.cost, 1))  # fmt: skip
    met = judge(found)
    emit(target="KiB of an idle GET stream", at_most=MOST_KIB, met=small)
    table(found)
    return met and small and fast


if __name__ == "__main__":
    sys.exit(main())
