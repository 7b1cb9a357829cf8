"""Runs the checks, area beside area and each within its time; knows nothing of what they look at."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from django.db import Error as DatabaseFault
from django.db import connections

from mcp_app.doctor import code, database, documents, keys, provider, redis, settings, web, workers
from mcp_app.doctor.finding import Finding, Level, error, skipped
from mcp_app.doctor.installation import Installation
from mcp_app.egress import EgressError
from mcp_app.streams.base import StreamsError

Check = Callable[[Installation], Iterable[Finding]]
CHECK_SECONDS = 5.0
# Threads of checks that hang; repeated examinations must not fill the process with them.
MOST_LEFT_BEHIND = 20
_alone = threading.Lock()
HANGS = "Look for a lock, for a firewall that drops what it should refuse, for an overloaded machine."


@dataclass(frozen=True, slots=True)
class Area:
    """Checks that make sense when ``gate`` finds no error and skips nothing; each gets ``seconds``."""

    name: str
    checks: tuple[Check, ...]
    gate: Check | None = None
    seconds: float = CHECK_SECONDS


AREAS = (
    Area("settings", settings.CHECKS),
    # The first to need them loads all URLs of the project, which is its own code and takes as long as it is.
    Area("code", code.CHECKS, seconds=60.0),
    Area("database", database.CHECKS, database.reachable),
    Area("redis", redis.CHECKS, redis.reachable),
    Area("workers", workers.CHECKS, workers.visible),
    Area("keys", keys.CHECKS, keys.readable),
    Area("provider", provider.CHECKS, seconds=15.0),
    Area("documents", documents.CHECKS),
    # An event stream takes its time, and each of its requests has a bound of its own.
    Area("web", web.CHECKS, web.alive, seconds=30.0),
)


class _Looking(threading.Thread):
    """Runs ``work`` at once, in a daemon thread: one that hangs is left behind and ends with the process."""

    NAME = "mcp-doctor"

    def __init__(self, work: Callable[[], list[Finding]]) -> None:
        super().__init__(name=self.NAME, daemon=True)
        self._work = work
        self.found: list[Finding] | None = None
        self.start()

    def run(self) -> None:
        """Called by the thread; ``found`` stays None when ``work`` raised, which is in the log."""
        self.found = self._work()


def examine(
    installation: Installation, areas: Iterable[Area] = AREAS, seconds: float | None = None
) -> list[Finding]:
    """What all checks find, in the order of their areas; blocks for the slowest area, or ``seconds``.

    An area that is not through by then is an error of its own.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    looking = [(area.name, _Looking(partial(_area, area, installation))) for area in areas]
    found: list[Finding] = []
    for name, thread in looking:
        thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))
        if thread.is_alive():
            found.append(error(f"{name}.others", f"not through within {seconds:g} s", HANGS))
        else:
            found += thread.found or []
    return found


class Busy(Exception):
    """An examination is running in this process, or too much hangs that earlier ones left behind."""


def examine_alone(installation: Installation, seconds: float, areas: Iterable[Area] = AREAS) -> list[Finding]:
    """As ``examine``, one at a time in this process; raises Busy at once instead of waiting for another."""
    left_behind = sum(thread.name == _Looking.NAME for thread in threading.enumerate())
    if left_behind > MOST_LEFT_BEHIND or not _alone.acquire(blocking=False):
        raise Busy
    try:
        return examine(installation, areas, seconds)
    finally:
        _alone.release()


def _area(area: Area, installation: Installation) -> list[Finding]:
    found = _check(area, area.gate, installation) if area.gate else []
    levels = {finding.level for finding in found}
    if Level.ERROR in levels:
        rest = ", ".join(check.__name__ for check in area.checks)
        return [*found, skipped(f"{area.name}.others", f"not looked at before that works: {rest}")]
    if Level.SKIPPED in levels:
        return found
    for check in area.checks:
        found += _check(area, check, installation)
    return found


def _check(area: Area, check: Check, installation: Installation) -> list[Finding]:
    """What one check finds within its time, in a thread that is left behind when it hangs."""
    name = f"{area.name}.{check.__name__}"
    thread = _Looking(partial(_within_reach, name, check, installation))
    thread.join(area.seconds)
    if thread.is_alive():
        return [error(name, f"no answer within {area.seconds:g} s", HANGS)]
    if thread.found is None:
        return [error(name, "the check itself failed", "Its traceback is in the log: report it as a fault.")]
    return thread.found


def _within_reach(name: str, check: Check, installation: Installation) -> list[Finding]:
    """What is out of reach is a finding, too."""
    try:
        return list(check(installation))
    except DatabaseFault as fault:
        return [
            error(name, str(fault), "Start the database, correct its address, or run `manage.py migrate`.")
        ]
    except StreamsError as fault:
        return [error(name, str(fault), "Start Redis, or correct REDIS_URL.")]
    except EgressError as fault:
        return [error(name, str(fault), "See that the address leads to this installation.")]
    finally:
        connections.close_all()
