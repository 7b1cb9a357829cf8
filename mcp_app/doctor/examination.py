"""The runner of the checks.

Areas run in parallel, and each check has a time limit. The runner does not depend on what is checked.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from django.db import Error as DatabaseFault
from django.db import connections

from mcp_app.doctor import (
    code,
    database,
    documents,
    keys,
    provider,
    redis,
    settings,
    toolsets,
    upstreams,
    web,
    workers,
)
from mcp_app.doctor.finding import Finding, Level, error, skipped
from mcp_app.doctor.installation import Installation
from mcp_app.egress import EgressError
from mcp_app.streams.base import StreamsError

Check = Callable[[Installation], Iterable[Finding]]
CHECK_SECONDS = 5.0
# Maximum number of check threads that hang. Repeated examinations must not leave more of them.
MAX_ABANDONED = 20
_alone = threading.Lock()
HANGS = "Look for a lock, a firewall that drops packets, or an overloaded machine."


@dataclass(frozen=True, slots=True)
class Area:
    """A group of checks.

    They run unless ``gate`` reports an error or a skipped check. ``seconds`` is the time limit of each check.
    """

    name: str
    checks: tuple[Check, ...]
    gate: Check | None = None
    seconds: float = CHECK_SECONDS


AREAS = (
    Area("settings", settings.CHECKS),
    # The first of these checks loads all URLs of the project, which may take long.
    Area("code", code.CHECKS, seconds=60.0),
    Area("database", database.CHECKS, database.reachable),
    Area("redis", redis.CHECKS, redis.reachable),
    Area("workers", workers.CHECKS, workers.visible),
    Area("keys", keys.CHECKS, keys.readable),
    Area("provider", provider.CHECKS, seconds=15.0),
    Area("documents", documents.CHECKS),
    Area("toolsets", toolsets.CHECKS),
    Area("upstreams", upstreams.CHECKS),
    # An event stream takes time. Each request of this area also has a shorter limit.
    Area("web", web.CHECKS, web.alive, seconds=30.0),
)


class _CheckThread(threading.Thread):
    """A daemon thread that runs ``work``. If it hangs, it is abandoned and ends with the process."""

    NAME = "mcp-doctor"

    def __init__(self, work: Callable[[], list[Finding]]) -> None:
        super().__init__(name=self.NAME, daemon=True)
        self._work = work
        self.found: list[Finding] | None = None
        self.start()

    def run(self) -> None:
        """Store the result of ``work`` in ``found``.

        If ``work`` raises, the exception is logged and ``found`` stays None.
        """
        self.found = self._work()


def examine(
    installation: Installation, areas: Iterable[Area] = AREAS, seconds: float | None = None
) -> list[Finding]:
    """Return the findings of all checks in the order of their areas.

    Blocks until all areas have finished, but at most ``seconds``. An area that has not finished is reported
    as an error.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    looking = [(area.name, _CheckThread(partial(_area, area, installation))) for area in areas]
    found: list[Finding] = []
    for name, thread in looking:
        thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))
        if thread.is_alive():
            found.append(error(f"{name}.others", f"not finished within {seconds:g} s", HANGS))
        else:
            found += thread.found or []
    return found


class Busy(Exception):
    """Raised if this process already runs an examination.

    Also raised if earlier examinations have left too many threads that hang.
    """


def examine_alone(installation: Installation, seconds: float, areas: Iterable[Area] = AREAS) -> list[Finding]:
    """Run ``examine`` unless another examination runs in this process.

    Raises Busy instead of waiting for it.
    """
    left_behind = sum(thread.name == _CheckThread.NAME for thread in threading.enumerate())
    if left_behind > MAX_ABANDONED or not _alone.acquire(blocking=False):
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
        return [*found, skipped(f"{area.name}.others", f"skipped until that works: {rest}")]
    if Level.SKIPPED in levels:
        return found
    for check in area.checks:
        found += _check(area, check, installation)
    return found


def _check(area: Area, check: Check, installation: Installation) -> list[Finding]:
    """Return the findings of a check. A thread that exceeds the time limit is abandoned."""
    name = f"{area.name}.{check.__name__}"
    thread = _CheckThread(partial(_within_reach, name, check, installation))
    thread.join(area.seconds)
    if thread.is_alive():
        return [error(name, f"no response within {area.seconds:g} s", HANGS)]
    if thread.found is None:
        return [error(name, "the check itself failed", "Its traceback is in the log. Report it as a bug.")]
    return thread.found


def _within_reach(name: str, check: Check, installation: Installation) -> list[Finding]:
    """Return the findings of a check. A failed connection becomes an error."""
    try:
        return list(check(installation))
    except DatabaseFault as fault:
        return [
            error(name, str(fault), "Start the database, correct its address, or run `manage.py migrate`.")
        ]
    except StreamsError as fault:
        return [error(name, str(fault), "Start Redis, or correct REDIS_URL.")]
    except EgressError as fault:
        return [error(name, str(fault), "Route the address to this installation.")]
    finally:
        connections.close_all()
