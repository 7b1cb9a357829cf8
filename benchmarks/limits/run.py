"""Count admitted calls against the exact number: ``python -m benchmarks.limits [--calls N] [--processes N]``.

Each process tries its share of the calls against a fast rate, a slow rate and a budget on one embedded Redis.
With ``--restart``, Redis restarts in the middle. With ``--clock-back``, clocks are set back by an hour. For
processes, libfaketime does this. It cannot change the clock of Redis, so the stored times move ahead instead.
The exact number of a rate is its burst and what the run's seconds add; the stated error is one lease for each
process, and two bursts for an outage. A limit that admits less than half of the exact number fails as well.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import redis

CALLS, PROCESSES, AT_ONCE = 100_000, 4, 32
LIMITS: dict[str, dict[str, Any]] = {
    "rate 20,000/s, burst 1,000": {"rate": 20_000, "rate_period": "second", "burst": 1_000},
    "rate 10/s, burst 50": {"rate": 10, "rate_period": "second", "burst": 50},
    "budget 60,000": {"budget": 60_000, "budget_period": "month"},
}
LIBFAKETIME = "*/faketime/libfaketimeMT.so.1"
HOUR = 3_600


# Printed by a process that has tried half of its calls.
HALF = "half"


class Tried(NamedTuple):
    """The calls that one process tried."""

    admitted: int
    trips: int
    began: float
    ended: float
    clock: float


def _bucket(name: str) -> Any:
    from mcp_app.limits.rules import BUDGET, RATE, Bucket, Rule

    values = LIMITS[name]
    number = list(LIMITS).index(name) + 1
    rule = Rule(number, f"limit-{number}", "installation", "", "everything", "", **values)
    return Bucket(rule, BUDGET if rule.budget else RATE, "all")


async def _try(url: str, name: str, calls: int) -> Tried:
    from mcp_app.conf import Settings
    from mcp_app.limits.limiter import Limiter, Ticket
    from mcp_app.protocol.errors import McpError
    from mcp_app.protocol.refusals import Code
    from mcp_app.streams.gateway import Streams

    streams = Streams.connect(url)
    await streams.start()
    limiter, bucket = Limiter(streams, Settings(web_processes=PROCESSES)), _bucket(name)
    admitted, left = 0, calls

    async def one() -> None:
        nonlocal admitted, left
        while left > 0:
            left -= 1
            if left == calls // 2:
                print(HALF, flush=True)
            try:
                await limiter.admit(Ticket((bucket,)))
            except McpError as refusal:
                # Calls that were tried during the outage only would prove nothing.
                await asyncio.sleep(0.01 if refusal.refusal == Code.UNAVAILABLE else 0)
                continue
            admitted += 1

    began = time.monotonic()
    await asyncio.gather(*(one() for _ in range(AT_ONCE)))
    ended = time.monotonic()
    await streams.close()
    return Tried(admitted, limiter.leases.trips, began, ended, time.time())


async def _seed(url: str, name: str) -> None:
    """Begin the count of a budget, so that no process needs the database."""
    from mcp_app.database import clock
    from mcp_app.limits.limiter import budget_key
    from mcp_app.limits.rules import Period
    from mcp_app.streams.gateway import Streams

    streams, bucket = Streams.connect(url), _bucket(name)
    await streams.start()
    key = budget_key(bucket, Period.at(bucket.rule.budget_period, clock.utcnow()))
    await streams.rules.spend(key, 0, None, 86_400, 0)
    await streams.close()


def _run(name: str, calls: int, processes: int, *, restarts: bool, goes_back: bool) -> dict[str, Any]:
    from mcpsite.redis_server import RedisServer

    with tempfile.TemporaryDirectory(prefix="mcp-limits-") as folder:
        server, clock = RedisServer(Path(folder) / "redis", append_only=True), Path(folder) / "clock"
        server.start()
        clock.write_text("+0")
        environment = _faked(clock) if goes_back else {}
        try:
            if LIMITS[name].get("budget"):
                asyncio.run(_seed(server.url, name))
            started = [_start(server.url, name, calls // processes, environment) for _ in range(processes)]
            assert _line(started[0]) == HALF
            if restarts:
                # Redis ends together with the thread that has started it, so this thread restarts it.
                server.stop()
                server.start()
            if goes_back:
                clock.write_text(f"-{HOUR}")
                _move_times(server.url, name)
            tried = [_result(each) for each in started]
            assert not goes_back or all(time.time() - each.clock > HOUR - 60 for each in tried), tried
        finally:
            server.stop()
    return {**_row(name, calls, tried, restarts=restarts), "clock_back": goes_back}


def _faked(clock: Path) -> dict[str, str]:
    """Return variables for a process whose clock is off by the seconds in a file."""
    (library,) = Path("/usr/lib").glob(LIBFAKETIME)
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


def _move_times(url: str, name: str) -> None:
    """Move the stored time of a rate ahead by an hour, as if the clock of Redis was set back."""
    from mcp_app.limits.rules import MICROSECONDS
    from mcp_app.streams.connections.keys import limit_key

    bucket = _bucket(name)
    if bucket.rule.rate:
        with redis.Redis.from_url(url) as client:
            key = limit_key(bucket.key)
            now, life = int(client.get(key) or time.time() * MICROSECONDS), HOUR * 1_000 + client.pttl(key)
            client.set(key, now + HOUR * MICROSECONDS, px=max(life, HOUR * 1_000))


def _start(url: str, name: str, calls: int, environment: dict[str, str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.limits", "--child", url, name, str(calls)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment})


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def _result(process: subprocess.Popen[str]) -> Tried:
    """Return what a process prints at its end."""
    while (line := _line(process)) == HALF:
        pass
    process.wait()
    return Tried(*json.loads(line))


def _row(name: str, calls: int, tried: list[Tried], *, restarts: bool) -> dict[str, Any]:
    bucket = _bucket(name)
    seconds = max(each.ended for each in tried) - min(each.began for each in tried)
    admitted, rule = sum(each.admitted for each in tried), bucket.rule
    exact, error = rule.budget, 0
    if rule.rate:
        exact = int(bucket.burst + seconds * rule.rate)
        error = len(tried) * bucket.lease + (2 * bucket.burst if restarts else 0)
    return {
        "limit": name,
        "restart": restarts,
        "seconds": round(seconds, 2),
        "admitted": admitted,
        "exact": exact,
        "stated_error": error,
        "trips": sum(each.trips for each in tried),
        "holds": min(exact, calls) / 2 <= admitted <= exact + error,
    }


def _set_up() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchmarks.settings")
    import django

    django.setup()
    import logging

    logging.disable(logging.INFO)


def main() -> int:
    """Print one JSON object for each limit. Return 1 if a limit admitted too many or too few calls."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=CALLS, help="of all processes (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=PROCESSES)
    parser.add_argument("--restart", action="store_true", help="restart Redis in the middle")
    parser.add_argument("--clock-back", action="store_true", help="set Redis' clock back in the middle")
    parser.add_argument("--limit", choices=LIMITS, action="append", help="this limit only; repeatable")
    parser.add_argument("--child", nargs=3, metavar=("URL", "LIMIT", "CALLS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    _set_up()
    if options.child:
        url, name, calls = options.child
        print(json.dumps(asyncio.run(_try(url, name, int(calls)))), flush=True)
        return 0
    rows = []
    disturbed = {"restarts": options.restart, "goes_back": options.clock_back}
    for name in options.limit or LIMITS:
        rows.append(_run(name, options.calls, options.processes, **disturbed))
        print(json.dumps(rows[-1]), flush=True)
    return 0 if all(row["holds"] for row in rows) else 1
