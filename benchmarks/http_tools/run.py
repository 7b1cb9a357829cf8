"""Measure an HTTP tool beside FastMCP's OpenAPI provider: ``python -m benchmarks.http_tools.run``.

Both offer the same document, whose API runs on the core of the load. The ratios are of the servers' processor
time per call, as the API and the clients share a core. A second server of ours has 1,200 imported tools more.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import orjson
import pytest

from benchmarks import load, scenarios
from benchmarks.http_tools.document import BODY, document
from benchmarks.processes import Process, cores, free_port, load_core, uvicorn
from benchmarks.servers import empty_log_queue, pin
from benchmarks.tools.run import Row, emit
from tests.interop.pypi import packages
from tests.servers.live import LiveServer

IMPORTED = 1_200
# With more, an API on the same core answers after the grace period, and each answer of ours is a stream.
CONNECTIONS = 8
AT_LEAST = 5.0
WORKS = ("HTTP tool", "tools/call echo", "ping")
# The part of the speed that remains beside many imported tools.
REMAINS = 0.95
LOOK_UP = {**scenarios.ECHO, "params": {"name": "look_up", "arguments": {"id": "7", "text": "hello"}}}
IMPORT = """
from mcp_app.catalogue.documents import importing, storing
row = storing.receive(data={data!r}, actor=None, name="shop", prefix="")
storing.save_choices(row=row, actor=None, server={origin!r}, credentials={{}})
keys = list(storing.document_of(row).places)
importing.import_operations(row=row, keys=keys, actor=None, publish=True)
"""


def measure(rounds: int, seconds: float) -> bool:
    """Run all rounds and return True if every target is met."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mcp-bench-")))
        pins = cores()
        api = stack.enter_context(_plain("document:api", folder, {}, pins[1] if pins else None))
        origin = f"http://127.0.0.1:{api[0]}"
        few, many = (stack.enter_context(_ours(origin, number)) for number in (1, IMPORTED))
        rows = {("HTTP tool", "ours"): _row(LOOK_UP, *_place(few))}
        try:
            facts = {"BENCH_API": origin, "PYTHONPATH": f"{packages('fastmcp4')}{os.pathsep}."}
            peer = stack.enter_context(_plain("peer:application", folder, facts, pins[0] if pins else None))
            rows["HTTP tool", "fastmcp"] = _row(LOOK_UP, *peer)
        except pytest.skip.Exception as missing:
            emit(server="fastmcp", not_measured=str(missing))
        rows |= {
            ("tools/call echo", "ours"): _row(scenarios.ECHO, *_place(few)),
            ("tools/call echo", "1,200 imported"): _row(scenarios.ECHO, *_place(many)),
            ("HTTP tool", "1,200 imported"): _row(LOOK_UP, *_place(many)),
            ("ping", "ours"): _row(scenarios.PING, *_place(few)),
            ("ping", "1,200 imported"): _row(scenarios.PING, *_place(many)),
        }
        stack.enter_context(load_core())
        for number in range(rounds + 1):
            for row in rows.values():
                row.once(seconds)
                for server in (few, many):
                    empty_log_queue(server)
                if not number:  # The first round is a warm-up.
                    row.rates.clear()
                    row.costs.clear()
    return judge(rows)


def _row(message: dict[str, object], port: int, pid: int) -> Row:
    check = {id(LOOK_UP): _check, id(scenarios.PING): scenarios.check_ping}.get(
        id(message), scenarios.check_echo
    )
    return Row(lambda: scenarios.repeated(port, message, check), port, pid, CONNECTIONS)


def _check(reply: load.Reply) -> None:
    # A server whose API answers late answers with a stream, of which the last event has the result.
    data = reply.body if reply.body.startswith(b"{") else reply.body.rpartition(b"data: ")[2]
    result = orjson.loads(data).get("result", {})
    if result.get("isError") or result.get("structuredContent") != orjson.loads(BODY):
        raise load.WrongAnswer(f"look_up: {reply.body[:300]!r}")


def _place(server: LiveServer) -> tuple[int, int]:
    return server.ports[0], server.processes[0].pid


@contextmanager
def _ours(origin: str, number: int) -> Iterator[LiveServer]:
    env = {"BENCH_TOOLS": "10", "DEMO": "off", "EGRESS_ALLOW": "127.0.0.0/8"}
    with LiveServer(1, settings="benchmarks.settings", env=env) as server:
        server.shell(IMPORT.format(origin=origin, data=json.dumps(document(origin, number)).encode()))
        pins = cores()
        if pins is not None and server.redis.process is not None:
            pin(server.processes[0].pid, pins[0])
            pin(server.redis.process.pid, pins[1])
        yield server


@contextmanager
def _plain(name: str, folder: Path, facts: dict[str, str], core: int | None) -> Iterator[tuple[int, int]]:
    port = free_port()
    command = uvicorn(f"benchmarks.http_tools.{name}", port, lifespan="auto")
    process = Process(command, folder / f"{name}.log", facts, core)
    process.start()
    try:
        process.wait_for_port(port)
        yield port, process.pid
    finally:
        process.stop()


def judge(rows: dict[tuple[str, str], Row]) -> bool:
    """Print the rows, and each ratio with its required bound."""
    for (work, server), row in rows.items():
        rate, cost = statistics.median(row.rates), statistics.median(row.costs)
        emit(work=work, server=server, rounds=len(row.rates), median_per_second=round(rate),
             median_cpu_us=round(cost, 1))  # fmt: skip
    targets = [("HTTP tool", "ours", "fastmcp", AT_LEAST)] if ("HTTP tool", "fastmcp") in rows else []
    targets += [(work, "1,200 imported", "ours", REMAINS) for work in WORKS]
    all_met = True
    for work, server, base, at_least in targets:
        costs = zip(rows[work, base].costs, rows[work, server].costs, strict=True)
        ratio = statistics.median(theirs / ours for theirs, ours in costs if ours)
        emit(target=f"{work}, {server} against {base}", ratio_by_processor_time=round(ratio, 2),
             at_least=at_least, met=ratio >= at_least)  # fmt: skip
        all_met = all_met and ratio >= at_least
    return all_met


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.7)
    wanted = parser.parse_args(arguments)
    return 0 if measure(wanted.rounds, wanted.seconds) else 1


if __name__ == "__main__":
    sys.exit(main())
