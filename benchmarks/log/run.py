"""Measure the admin with millions of messages: ``python -m benchmarks.log.run``.

``--messages N`` sets their number, ``--postgres`` the database. Measured are the server time of every
page that shows messages, sessions, calls or figures (one process, Django's test client, Redis running
and idle), the write rate of a log of that size, and the cost of one retention pass. ``cpu_ms`` is the
processor time of the server and its database: it does not depend on other load.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from mcpsite.redis_server import RedisServer
from tests.servers.postgres import MISSING, PostgreSQL, binaries

MOST_MS = 300.0
# The global search runs on every keystroke.
FINDING, MOST_FINDING_MS = "anything", 100.0
RUNS = 5
# Each run calls the page that many frames deeper. CPython keeps frames in pieces of 16 KiB. At an unlucky
# depth, a page calls and returns across the end of a piece, which doubled its processor time with 3.11.
DEEPER = 12
SQLITE, POSTGRES = 1_000_000, 10_000_000
REMOVED = 100_000
WRITER_PAUSE = 0.005


def emit(**facts: object) -> None:
    """Print one JSON object on its own line."""
    print(json.dumps(facts), flush=True)


@contextmanager
def installation(postgres: bool, database: str = "") -> Iterator[Path]:
    """Yield a temporary migrated installation. ``database`` is the URL of an existing database to reuse."""
    with tempfile.TemporaryDirectory(prefix="mcp-bench-log-") as name, ExitStack() as stack:
        folder = Path(name)
        redis = RedisServer(folder / "redis", append_only=False)
        redis.start()
        stack.callback(redis.stop)
        environment = {"DATA_DIR": str(folder / "data"), "REDIS_URL": redis.url, "DEMO": "on",
                       "ALLOWED_HOSTS": "testserver", "DATABASE_URL": database,
                       "SECRET_KEY": "the-benchmark-signs-with-this-key-only-here"}  # fmt: skip
        if postgres and not database:
            cluster = Path(tempfile.mkdtemp(prefix="mcp-bench-pg-"))
            stack.callback(shutil.rmtree, cluster, ignore_errors=True)
            environment["DATABASE_URL"] = stack.enter_context(PostgreSQL(cluster)).url
            environment["BENCHMARK_CLUSTER"] = str(cluster)
        os.environ.update(environment, DJANGO_SETTINGS_MODULE="mcpsite.settings")
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", verbosity=0)
        yield folder


def measure_pages(named: str = "") -> list[dict[str, Any]]:
    """Measure each page with ``named`` in its name: milliseconds, and the number of its queries."""
    from django.conf import settings
    from django.test import override_settings

    with override_settings(MCP={**settings.MCP, "API_REQUESTS_PER_MINUTE": 0}):
        return [_measured(*page) for page in _pages(named)]


def _pages(named: str) -> list[tuple[Any, str, str]]:
    from django.contrib.auth import get_user_model
    from django.test import Client

    from benchmarks.log.pages import pages

    client = Client()
    client.force_login(get_user_model().objects.get(username="root"))
    return [(client, name, address) for name, address in pages().items() if named in name]


def _measured(client: Any, name: str, address: str) -> dict[str, Any]:
    from django.db import connection

    queries = Counted()
    with connection.execute_wrapper(queries):
        _get(client, address)
    taken, costs = [], []
    for depth in range(0, RUNS * DEEPER, DEEPER):
        before = _processor_seconds()
        taken.append(_deep(depth, lambda: _get(client, address)))
        costs.append((_processor_seconds() - before) * 1000)
    cpu = statistics.median(costs)
    middle, bound = statistics.median(taken), MOST_FINDING_MS if name.startswith(FINDING) else MOST_MS
    row = {"page": name, "ms": round(middle, 1), "worst_ms": round(max(taken), 1), "cpu_ms": round(cpu, 1),
           "queries": queries.number, "met": middle <= bound}  # fmt: skip
    emit(**row)
    return row


def _deep(depth: int, get: Callable[[], float]) -> float:
    return _deep(depth - 1, get) if depth else get()


class Counted:
    """A counter of the queries of a page."""

    def __init__(self) -> None:
        self.number = 0

    def __call__(self, execute: Any, *arguments: Any) -> Any:
        self.number += 1
        return execute(*arguments)


def _processor_seconds() -> float:
    """Return the processor seconds of this process, and of a separate database server."""
    total = time.process_time()
    if (folder := os.environ.get("BENCHMARK_CLUSTER")) is None:
        return total
    first = psutil.Process(int((Path(folder) / "data" / "postmaster.pid").read_text().split("\n", 1)[0]))
    for process in (first, *first.children()):
        with suppress(psutil.Error):  # it may have exited since
            times = process.cpu_times()
            total += times.user + times.system
            # The first one includes the processes that have exited.
            total += times.children_user + times.children_system if process == first else 0.0
    return total


def _get(client: Any, address: str) -> float:
    begun = time.perf_counter()
    answer = client.get(address)
    taken = (time.perf_counter() - begun) * 1000
    assert answer.status_code == 200, (address, answer.status_code)
    return taken


def measure_retention() -> None:
    """Measure removal of the oldest messages by number and by age, and how long a writer waits meanwhile."""
    from datetime import timedelta

    from django.conf import settings
    from django.test import override_settings
    from django.utils import timezone

    from mcp_app.message_log.retention import purge_messages
    from mcp_app.models import Message

    newest, count = Message.objects.latest("pk").pk, Message.objects.count()
    limits = {"MESSAGE_LOG_ROWS": newest - Message.objects.earliest("pk").pk + 1 - min(REMOVED, count // 4)}
    _removal("by number", purge_messages, override_settings(MCP={**settings.MCP, **limits}))
    oldest = Message.objects.order_by("pk")[min(REMOVED, count // 4)].at
    Message.objects.filter(at__lt=oldest).update(at=timezone.now() - timedelta(days=3000))
    aged = {"MESSAGE_LOG_ROWS": 0, "MESSAGE_LOG_DAYS": 2000}
    _removal("by age", purge_messages, override_settings(MCP={**settings.MCP, **aged}))
    nothing = {"MESSAGE_LOG_ROWS": 0, "MESSAGE_LOG_DAYS": 2000}
    _removal("of nothing", purge_messages, override_settings(MCP={**settings.MCP, **nothing}))


def _removal(name: str, purge: Callable[[], int], limits: Any) -> None:
    stop, waits = threading.Event(), [0.0]
    writer = threading.Thread(target=_write_on, args=(stop, waits))
    writer.start()
    begun, before = time.perf_counter(), _processor_seconds()
    with limits:
        removed = purge()
    taken, cpu = time.perf_counter() - begun, _processor_seconds() - before
    stop.set()
    writer.join()
    emit(retention=name, removed=removed, seconds=round(taken, 1), cpu_seconds=round(cpu, 1),
         longest_wait_of_a_writer_ms=round(max(waits) * 1000))  # fmt: skip


def _write_on(stop: threading.Event, waits: list[float]) -> None:
    from django.db import connection, transaction

    from mcp_app.models import LogCursor

    while not stop.wait(WRITER_PAUSE):
        begun = time.perf_counter()
        with transaction.atomic():
            LogCursor.objects.update_or_create(pk=2, defaults={"last_id": "0-0"})
        waits.append(time.perf_counter() - begun)
    connection.close()


def measure_drain() -> bool:
    """Measure the drain and the cost of grouping errors. Return True if it is within its bound."""
    from benchmarks.log import drain

    found = drain.measure(_processor_seconds)
    for row in found:
        emit(**row)
    return all(row["met"] for row in found)


def table(found: list[dict[str, Any]]) -> None:
    """Print a table of the pages."""
    print(f"\n{'page':<50}{'ms':>9}{'worst':>9}{'cpu':>9}{'queries':>9}")
    for row in found:
        late = "" if row["met"] else "   too slow"
        print(
            f"{row['page']:<50}{row['ms']:>9.1f}{row['worst_ms']:>9.1f}{row['cpu_ms']:>9.1f}{row['queries']:>9}{late}"
        )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, help="default: 1 million, 10 million with --postgres")
    parser.add_argument("--postgres", action="store_true", help="on a private cluster")
    parser.add_argument("--filled", metavar="DATABASE_URL", help="only the pages, of a filled log")
    parser.add_argument("--pages", default="", metavar="TEXT", help="only pages with this in their name")
    parser.add_argument("--drain", action="store_true", help="only how fast an empty log is written")
    wanted = parser.parse_args(arguments)
    if wanted.postgres and binaries() is None:
        print(MISSING, file=sys.stderr)
        return 1
    count = wanted.messages or (POSTGRES if wanted.postgres else SQLITE)
    cheap = True
    with installation(wanted.postgres, wanted.filled or ""):
        from django.db import connection

        from benchmarks.log import fill

        if wanted.drain:
            return 0 if measure_drain() else 1
        emit(database=connection.vendor, messages=count, bound_ms=MOST_MS, runs=RUNS)
        if not wanted.filled:
            fill.fill(count, lambda name, seconds: emit(filled=name, seconds=round(seconds, 1)))
        emit(**fill.counts())
        found = measure_pages(wanted.pages)
        if not wanted.filled:
            cheap = measure_drain()
            measure_retention()
        connection.close()
    table(found)
    met = cheap and all(row["met"] for row in found)
    slowest = max(row["ms"] for row in found)
    emit(target=f"every page within {MOST_MS:g} ms, errors grouped cheaply", slowest=slowest, met=met)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
