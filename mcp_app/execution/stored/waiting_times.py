"""Owns how long background calls waited for a worker; a bounded look at the newest ones."""

from __future__ import annotations

from datetime import datetime
from typing import Final, NamedTuple

from mcp_app.models import Call, Session
from mcp_app.protocol.call_state import State

# How many of the newest calls are looked at: pages must be as quick on a busy day.
MOST: Final = 3_000


class BegunCall(NamedTuple):
    """One background call that a worker has begun."""

    tool: str
    principal: str
    session: str
    worker: str
    waited: float
    took: float | None
    failed: bool


def begun_calls(since: datetime, until: datetime | None = None) -> list[BegunCall]:
    """Of the newest MOST calls accepted in a time those begun once: a row keeps the last attempt only."""
    ended = {} if until is None else {"accepted_at__lt": until}
    rows = Call.objects.filter(accepted_at__gte=since, **ended).order_by("-accepted_at").values_list(
        "tool", "principal", "session_id", "worker", "attempt", "accepted_at", "decided_at", "started_at",
        "finished_at", "state",
    )  # fmt: skip
    found = []
    for tool, principal, session, worker, attempt, accepted, decided, started, finished, state in rows[:MOST]:
        if started is None or attempt > 1:
            continue
        waited = (started - (decided or accepted)).total_seconds()
        took = (finished - started).total_seconds() if finished else None
        failed = state == State.FAILED
        found.append(BegunCall(tool, principal, session, worker, max(waited, 0.0), took, failed))
    return found


def clients_since(since: datetime) -> dict[str, str]:
    """What the clients of the sessions of these calls call themselves."""
    calls = Call.objects.filter(accepted_at__gte=since).order_by("-accepted_at")
    # By a subquery: a list of thousands of ids takes longer to be written and read than the rows.
    sessions = Session.objects.filter(pk__in=calls.values("session_id")[:MOST])
    return dict(sessions.values_list("pk", "client_name"))


def share(seconds: list[float], part: float) -> float | None:
    """What ``part`` of them took at most; None of nothing."""
    if not seconds:
        return None
    return sorted(seconds)[min(int(len(seconds) * part), len(seconds) - 1)]
