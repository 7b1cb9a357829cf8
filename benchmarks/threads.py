"""Measure synchronous tools inside one process: ``python -m benchmarks.threads [--beside ../before]``.

The calls per second that the runner passes to its threads and back, with and without an indexed query
on a private PostgreSQL, as a share of the rate of a bare pool of as many threads with persistent
connections. In each round the checkouts take turns, and in each of them the runner and the pool; ratios
are of neighbours.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

THREADS, CALLERS = 8, 32
HERE = Path(__file__).resolve().parent.parent
Rates = dict[str, list[float]]
# The minimum share of the pool's rate.
TARGETS = {"sync": 0.55, "sync, one query": 0.7}


async def rate(call: Callable[[], Awaitable[Any]], expected: Any, seconds: float) -> float:
    """Return calls per second by callers that each wait for a response."""
    end = time.perf_counter() + seconds
    done = 0

    async def caller() -> None:
        nonlocal done
        while time.perf_counter() < end:
            assert await call() == expected
            done += 1

    begun = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    return done / (time.perf_counter() - begun)


async def measure(rounds: int, seconds: float) -> Rates:
    """Measure in this process: each function by the runner and by the bare pool, in turns."""
    from django.contrib.auth import get_user_model
    from django.db import connections

    from mcp_app.catalogue.definitions.definition import ToolFunction
    from mcp_app.execution.calls.runner import Runner

    def plain() -> str:
        return "hello"

    def query() -> str:
        return str(get_user_model().objects.values_list("username", flat=True).get(pk=1))

    runner, pool, loop = Runner(THREADS), ThreadPoolExecutor(THREADS), asyncio.get_running_loop()
    found: Rates = defaultdict(list)
    for number in range(rounds + 1):
        for name, function, expected in (("sync", plain, "hello"), ("sync, one query", query, "ada")):
            tool = ToolFunction(function, is_async=False, context_name=None, bind=lambda _: {})

            def by_runner(tool: ToolFunction = tool) -> Awaitable[Any]:
                # The attributes that the runners of all checkouts use.
                call: Any = SimpleNamespace(threads=(), suspended=False, stopped_by=None)
                return runner.invoke(tool, {}, call, call)

            def by_pool(function: Callable[[], str] = function) -> Awaitable[Any]:
                return loop.run_in_executor(pool, function)

            for who, call in (("ours", by_runner), ("pool", by_pool)):
                measured = await rate(call, expected, seconds)
                if number:  # The first round is a warm-up.
                    found[f"{name}: {who}"].append(measured)
    await asyncio.gather(*(loop.run_in_executor(pool, connections.close_all) for _ in range(THREADS)))
    return found


def child(rounds: int, seconds: float) -> None:
    """Measure the checkout that this process imports, on one core, and print the results."""
    import django
    import uvloop

    os.sched_setaffinity(0, {int(os.environ["BENCH_CORE"])})
    django.setup()
    print(json.dumps(uvloop.run(measure(rounds, seconds))))


def run(checkout: Path, environment: dict[str, str], *options: str) -> Rates:
    """Run this script in a new process with the code of ``checkout``."""
    command = [sys.executable, "-P", str(Path(__file__).resolve()), "--child", *options]
    done = subprocess.run(
        command, env={**environment, "PYTHONPATH": str(checkout)}, cwd=checkout, capture_output=True,
        text=True, check=False, timeout=600,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"The benchmark failed in {checkout}:\n{done.stderr[-4000:]}")
    found: Rates = json.loads(done.stdout.splitlines()[-1])
    return found


def prepare(environment: dict[str, str]) -> None:
    """Create a database with one user."""
    user = "from django.contrib.auth import get_user_model as m; m().objects.create(pk=1, username='ada')"
    for command in (["migrate", "-v", "0"], ["shell", "-v", "0", "-c", user]):
        subprocess.run([sys.executable, "manage.py", *command], cwd=HERE, env=environment, check=True)


def compare(checkouts: list[Path], rounds: int, seconds: float, environment: dict[str, str]) -> bool:
    """Run all rounds and print a line per row: medians, and the share of the pool in each checkout.

    Return True if this checkout meets every target.
    """
    shares: dict[tuple[str, Path], list[float]] = defaultdict(list)
    rates: dict[tuple[str, Path], list[float]] = defaultdict(list)
    for number in range(rounds):
        for checkout in checkouts[:: 1 if number % 2 else -1]:
            found = run(checkout, environment, "--rounds", "2", "--seconds", str(seconds))
            for row in {name.rpartition(":")[0] for name in found}:
                ours, pool = found[f"{row}: ours"], found[f"{row}: pool"]
                shares[row, checkout] += [a / b for a, b in zip(ours, pool, strict=True)]
                rates[row, checkout] += ours
    for row, checkout in sorted(rates):
        facts: dict[str, Any] = {"work": row, "checkout": str(checkout)}
        facts["per_second"] = round(statistics.median(rates[row, checkout]))
        facts["of_pool"] = round(statistics.median(shares[row, checkout]), 2)
        facts["of_pool_from_to"] = [round(f(shares[row, checkout]), 2) for f in (min, max)]
        print(json.dumps(facts), flush=True)
    met = True
    for row, at_least in TARGETS.items():
        ratio = statistics.median(shares[row, HERE])
        print(json.dumps({"target": f"{row}, in one process, of a bare pool", "ratio": round(ratio, 2),
                          "at_least": at_least, "met": ratio >= at_least}), flush=True)  # fmt: skip
        met = met and ratio >= at_least
    return met


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--beside", type=Path, help="a checkout of another commit, measured in turns")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.6)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    wanted = parser.parse_args(arguments)
    if wanted.child:
        child(wanted.rounds, wanted.seconds)
        return 0
    checkouts = [HERE, *([wanted.beside.resolve()] if wanted.beside else [])]
    return 0 if measure_all(checkouts, wanted.rounds, wanted.seconds) else 1


def measure_all(checkouts: list[Path], rounds: int, seconds: float) -> bool:
    """Compare on a private PostgreSQL. Return True if every target is met, or if measuring is impossible."""
    from tests.servers.postgres import MISSING, PostgreSQL, binaries

    if binaries() is None:
        print(json.dumps({"work": "sync, one query", "not_measured": MISSING}), flush=True)
        return True
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[-1]})  # For PostgreSQL; the measured process has the first core.
    folder = Path(tempfile.mkdtemp(prefix="mcp-bench-pg-"))
    try:
        with tempfile.TemporaryDirectory(prefix="mcp-bench-") as data, PostgreSQL(folder) as database:
            environment = {
                **os.environ,
                "DATA_DIR": data,
                "DATABASE_URL": database.url,
                "DJANGO_SETTINGS_MODULE": "mcpsite.settings",
                "SECRET_KEY": "only for the benchmark, which nobody can reach",
                "BENCH_CORE": str(cores[0]),
            }
            prepare(environment)
            return compare(checkouts, rounds, seconds, environment)
    finally:
        os.sched_setaffinity(0, set(cores))
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
