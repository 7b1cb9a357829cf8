"""Count admitted calls against the exact number: ``python -m benchmarks.limits [--calls N] [--processes N]``.

Each process tries its share of the calls against a fast rate, a slow rate and a budget on one embedded Redis.
With ``--restart``, Redis restarts in the middle. The exact number of a rate is its burst and what the run's
seconds add; the stated error is one lease for each process, and two bursts for an outage.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

CALLS, PROCESSES, AT_ONCE = 100_000, 4, 32
LIMITS: dict[str, dict[str, Any]] = {
    "rate 20,000/s, burst 1,000": {"rate": 20_000, "rate_period": "second", "burst": 1_000},
    "rate 10/s, burst 50": {"rate": 10, "rate_period": "second", "burst": 50},
    "budget 30,000": {"budget": 30_000, "budget_period": "month"},
}


class Tried(NamedTuple):
    """The calls that one process tried."""

    admitted: int
    trips: int
    began: float
    ended: float


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
            try:
                await limiter.admit(Ticket((bucket,)))
            except McpError as refusal:
                # Calls that were tried during the outage only would prove nothing.
                await asyncio.sleep(0.01 if refusal.refusal == Code.UNAVAILABLE else 0)
                continue
            admitted += 1

    began = time.time()
    await asyncio.gather(*(one() for _ in range(AT_ONCE)))
    ended = time.time()
    await streams.close()
    return Tried(admitted, limiter.leases.trips, began, ended)


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


def _run(name: str, calls: int, processes: int, *, restarts: bool) -> dict[str, Any]:
    from mcpsite.redis_server import RedisServer

    with tempfile.TemporaryDirectory(prefix="mcp-limits-") as folder:
        server = RedisServer(Path(folder) / "redis", append_only=True)
        server.start()
        timer = threading.Timer(8.0, _restart, (server,))
        try:
            if LIMITS[name].get("budget"):
                asyncio.run(_seed(server.url, name))
            started = [_start(server.url, name, calls // processes) for _ in range(processes)]
            if restarts:
                timer.start()
            tried = [Tried(*json.loads(each.communicate(timeout=600)[0])) for each in started]
        finally:
            timer.cancel()
            server.stop()
    return _row(name, tried, restarts=restarts)


def _start(url: str, name: str, calls: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.limits", "--child", url, name, str(calls)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _restart(server: Any) -> None:
    server.stop()
    server.start()


def _row(name: str, tried: list[Tried], *, restarts: bool) -> dict[str, Any]:
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
        "holds": admitted <= exact + error,
    }


def _set_up() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchmarks.settings")
    import django

    django.setup()
    import logging

    logging.disable(logging.INFO)


def main() -> int:
    """Print one JSON object for each limit. Return 1 if one admitted more than it states."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=CALLS, help="of all processes (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=PROCESSES)
    parser.add_argument("--restart", action="store_true", help="restart Redis in the middle")
    parser.add_argument("--child", nargs=3, metavar=("URL", "LIMIT", "CALLS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    _set_up()
    if options.child:
        url, name, calls = options.child
        print(json.dumps(asyncio.run(_try(url, name, int(calls)))), flush=True)
        return 0
    rows = []
    for name in LIMITS:
        rows.append(_run(name, options.calls, options.processes, restarts=options.restart))
        print(json.dumps(rows[-1]), flush=True)
    return 0 if all(row["holds"] for row in rows) else 1
