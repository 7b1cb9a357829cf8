"""Count the work of frequent requests beside many limits: ``python -m benchmarks.limits.work``.

One installation serves each request without limits, then beside 1,000 rules and 200 toolsets for others,
and then with two of the rules counting every request. The counts are calls of our functions, calls of all
functions of Python and C, statements of the database and commands of Redis. Of several rounds the smallest
count is kept, because timers fire meanwhile.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any, NamedTuple

from benchmarks.hops.__main__ import OURS, Paths, Web, connect_threads, installation
from benchmarks.limits.crowd import FILL, MATCHING

ROUNDS = 12
STATES = {"no rules": "", "rules for others": FILL, "two rules hold": MATCHING}


class Work(NamedTuple):
    """The counted work of one request."""

    ours: int
    calls: int
    statements: int
    commands: int


class Counter:
    """A profiler that counts calls in all threads while it is ``on``."""

    def __init__(self) -> None:
        self.on = False
        self.ours = self.calls = self.statements = 0
        self._redis: Any = None

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if not self.on or event not in ("call", "c_call"):
            return
        self.calls += 1
        if event == "call":
            self.ours += frame.f_code.co_filename.startswith(OURS)
        elif argument.__name__ == "execute" and isinstance(argument.__self__, sqlite3.Cursor):
            self.statements += 1

    def least(self, path: Callable[[], Any], before: Callable[[], Any]) -> Work:
        """Return the least work of a path in several rounds."""
        found = []
        for number in range(ROUNDS + 1):
            before()
            first = self._commands()
            self.ours = self.calls = self.statements = 0
            self.on = True
            path()
            self.on = False
            if number:  # Initialization at first use does not count.
                found.append(Work(self.ours, self.calls, self.statements, self._commands() - first - 1))
        return Work(*(min(numbers) for numbers in zip(*found, strict=True)))

    def _commands(self) -> int:
        import redis

        if self._redis is None:
            self._redis = redis.Redis.from_url(os.environ["REDIS_URL"])
        return int(self._redis.info("stats")["total_commands_processed"])


def apply(web: Web, code: str) -> None:
    """Store rows, and apply them in this process."""
    from mcp_app.catalogue.snapshots import current_snapshot
    from mcp_app.limits import current

    exec(code, {})
    current.load()
    web.run(current_snapshot.refresh(force=True))


def _paths(web: Web, worker: Any) -> Iterator[tuple[str, Callable[[], Any], Callable[[], Any]]]:
    """Yield the paths by name, each with a function to call before."""
    paths = Paths(web, worker)
    # The call before leases calls for the next ones, if a rule holds.
    yield "tools/call: short cut", paths.short_cut, paths.echo
    yield "tools/call: ordinary", paths.echo, paths.echo
    yield "tools/call with a context", paths.echo_in_task, paths.echo
    yield "tools/list", lambda: web.post({"method": "tools/list", "id": 1}), lambda: None
    yield "ping", lambda: web.post({"method": "ping", "id": 1}), lambda: None
    yield "background call: accepted", paths.accept, lambda: None
    yield "background call: worker", paths.work, lambda: paths.make("report")


def measure(states: Mapping[str, str]) -> dict[str, dict[str, Work]]:
    """Return the work by path and state. ``states`` has the code that stores the rows of each."""
    counter = Counter()
    found: dict[str, dict[str, Work]] = {}
    with installation(counter):
        from mcp_app import conf
        from mcp_app.catalogue.snapshots.current_snapshot import current
        from mcp_app.execution.worker.worker import Worker

        web = Web()
        web.start()
        worker = Worker(conf.get(), may_exit=False)
        try:
            connect_threads()
            for state, code in states.items():
                if code:
                    apply(web, code)
                print(f"{state}: {len(current().tools)} tools", file=sys.stderr)
                for name, path, before in _paths(web, worker):
                    found.setdefault(name, {})[state] = counter.least(path, before)
        finally:
            worker.close()
            web.close()
            threading.setprofile(None)
            sys.setprofile(None)
    return found


def report(states: Mapping[str, str]) -> None:
    """Measure and print the counts, with ``--json`` in one line."""
    found = measure(states)
    if "--json" in sys.argv:
        plain = {path: {state: work._asdict() for state, work in of.items()} for path, of in found.items()}
        print(json.dumps(plain))
        return
    print(f"{'path':<28}{'state':<20}{'our calls':>10}{'calls':>8}{'statements':>12}{'commands':>10}")
    for name, of in found.items():
        for state, work in of.items():
            ours, calls, statements, commands = work
            print(f"{name:<28}{state:<20}{ours:>10}{calls:>8}{statements:>12}{commands:>10}", flush=True)


if __name__ == "__main__":
    report(STATES)
