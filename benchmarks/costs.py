"""Measure the parts of a call in processor time of one process: ``python -m benchmarks.costs``.

Parts are measured alone, in many short alternating turns; a figure is the median of these. Entire calls
are listed next to them (``benchmarks.first_step``). The figures exclude the work of Redis, the database
server and the worker. For the cost of an open stream: ``python -m benchmarks.fan_out``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

import orjson

from benchmarks import first_step

# The content of 100 KiB: a table row, repeated.
RECORD = {"id": 1042, "name": "Ada Lovelace", "email": "ada@example.org", "active": True, "score": 0.75}
LARGE_BYTES = 100 * 1024
MEMBERS = 20
CALLERS = 32
Part = Callable[[int], Awaitable[None]]


def large_structure() -> dict[str, Any]:
    """Return table rows that are LARGE_BYTES as JSON."""
    return {"rows": [RECORD] * (LARGE_BYTES // len(json.dumps(RECORD, separators=(",", ":"))))}


def large_body(rows: dict[str, Any]) -> bytes:
    """Return our response with such rows: structured, and repeated as text."""
    content = [{"type": "text", "text": orjson.dumps(rows).decode()}]
    result = {"content": content, "structuredContent": rows, "isError": False}
    return orjson.dumps({"jsonrpc": "2.0", "id": 1, "result": result})


def repeated(work: Callable[[], Any]) -> Part:
    """Return a part that calls a function repeatedly."""

    async def turn(times: int) -> None:
        for _ in range(times):
            work()

    return turn


def json_parts() -> dict[str, Part]:
    """Return parts for messages of both directions: parsing with all checks, and encoding."""
    from mcp_app.protocol.messages import jsonrpc

    small = first_step.calls("echo")[0]
    result = {"content": [{"type": "text", "text": "hello"}], "isError": False}
    rows = large_structure()
    large = first_step.message(1, "tools/call", {"name": "echo", "arguments": rows})
    structured = {"structuredContent": rows}
    return {
        "JSON: read a small call": repeated(lambda: jsonrpc.parse(small)),
        "JSON: write a small result": repeated(lambda: jsonrpc.encode_result(1, result)),
        "JSON: read a call of 100 KiB": repeated(lambda: jsonrpc.parse(large)),
        "JSON: write a result of 100 KiB": repeated(lambda: jsonrpc.encode_result(1, structured)),
    }


def schema_parts() -> dict[str, Part]:
    """Return a part that validates the arguments of a call against the schema of a tool."""
    from mcp_app.catalogue.schemas.validation import compile_schema

    def check(members: int) -> Part:
        names = [f"member_{number}" for number in range(members)]
        schema = compile_schema({
            "type": "object",
            "properties": {name: {"type": "string", "maxLength": 100} for name in names},
            "required": names,
            "additionalProperties": False,
        })  # fmt: skip
        arguments = dict.fromkeys(names, "hello")
        return repeated(lambda: schema.is_valid(arguments))

    return {"schema check: 1 argument": check(1), f"schema check: {MEMBERS} arguments": check(MEMBERS)}


def log_part(streams: Any) -> Part:
    """Return a part for one message log line: queue, redact secrets, encode, send to Redis in batches."""
    from mcp_app import conf
    from mcp_app.message_log.log import MessageLog

    asked, answer = first_step.calls("echo")[0], b'{"jsonrpc":"2.0","id":1,"result":{}}'
    written = MessageLog(streams, conf.get())

    async def turn(times: int) -> None:
        for number in range(times):
            facts = ("tools/call", number, "echo")
            written.exchange("a-session", "user:1", asked, answer, 0.001, "ok", facts)
        await written.flush()

    return turn


def thread_parts() -> dict[str, Part]:
    """Return a part that runs a function in a thread, like a synchronous tool.

    Many callers share wake-ups.
    """
    from mcp_app.execution.calls.threads import Threads

    threads = Threads(8)

    def nothing() -> None:
        return

    async def one_caller(times: int) -> None:
        for _ in range(times):
            await threads.start(nothing).outcome()

    async def many_callers(times: int) -> None:
        await asyncio.gather(*(one_caller(times // CALLERS) for _ in range(CALLERS)))

    return {"thread: one caller": one_caller, f"thread: {CALLERS} callers": many_callers}


def query_parts() -> dict[str, Part]:
    """Return parts for an indexed ORM query on SQLite: on a persistent connection and on a new one."""
    from django.contrib.contenttypes.models import ContentType
    from django.db import connection

    rows = ContentType.objects.values_list("model", flat=True)

    def opened() -> None:
        connection.close()
        rows.get(pk=1)

    async def awaited(times: int) -> None:
        for _ in range(times):
            await rows.filter(pk=1).afirst()

    return {
        "query: on a kept connection": repeated(lambda: rows.get(pk=1)),
        "query: opening the connection for it": repeated(opened),
        "query: awaited": awaited,
    }


async def measure(rounds: int, times: int) -> dict[str, list[float]]:
    """Return the microseconds of processor time for one run of each part, by round."""
    from mcp_app import conf
    from mcp_app.streams.gateway import Streams

    streams = Streams.connect(conf.get().redis_url)
    await streams.start()
    parts = {**json_parts(), **schema_parts(), "log line": log_part(streams)}
    parts |= {**thread_parts(), **query_parts()}
    found: dict[str, list[float]] = defaultdict(list)
    for number in range(rounds + 1):
        for name, part in parts.items():
            begun = time.process_time()
            await part(times)
            if number:  # The first round is a warm-up.
                found[name].append((time.process_time() - begun) / times * 1e6)
    await streams.close()
    return found


def child(wanted: argparse.Namespace) -> None:
    """Measure the parts in this process, on one core, and print the results."""
    import django
    import uvloop

    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"  # Queries that a thread would make run here.
    os.sched_setaffinity(0, {int(os.environ["BENCH_CORE"])})
    django.setup()
    logging.disable(logging.INFO)
    for name, costs in uvloop.run(measure(wanted.rounds, wanted.times)).items():
        emit(part=name, cpu_us=round(statistics.median(costs), 2), least=round(min(costs), 2))


def emit(**facts: object) -> None:
    """Print one JSON object on its own line."""
    print(json.dumps(facts), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--times", type=int, default=320)
    parser.add_argument("--processes", type=int, default=3, help="in so many are whole calls measured")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.child:
        child(wanted)
        return
    with first_step.installation() as environment:
        wholes: dict[str, list[float]] = defaultdict(list)
        for _ in range(wanted.processes):
            # It creates the database as well.
            for name, costs in first_step.run(first_step.HERE, environment, "--turns", "40").items():
                wholes[name] += costs
        for name, costs in wholes.items():
            emit(whole=name, cpu_us=round(statistics.median(costs), 1), least=round(min(costs), 1))
        options = ("--child", "--rounds", str(wanted.rounds), "--times", str(wanted.times))
        command = [sys.executable, "-m", "benchmarks.costs", *options]
        subprocess.run(command, cwd=first_step.HERE, env=environment, check=True)


if __name__ == "__main__":
    main()
