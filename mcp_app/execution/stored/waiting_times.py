"""Waiting and running times of background calls, from a limited number of the newest calls."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, NamedTuple

from django.db.models import CharField, FloatField, Func, OuterRef, Subquery, Value
from django.db.models.functions import Coalesce

from mcp_app.models import Call, Session
from mcp_app.models.call import LOGGED_SESSION
from mcp_app.protocol.call_state import State

# Maximum number of calls to read, so that pages stay fast on busy days.
MOST: Final = 3_000


class Seconds(Func):
    """The seconds between two times, computed in SQL because parsing thousands of times would be slow."""

    arity = 2
    output_field = FloatField()
    template = "EXTRACT(EPOCH FROM %(expressions)s)::float8"
    arg_joiner = " - "

    def as_sqlite(self, compiler: Any, connection: Any, **more: Any) -> Any:
        """Compute the seconds from days, exact to a millisecond like SQLite's time functions."""
        template = "(JULIANDAY(%(expressions)s)) * 86400.0"
        return self.as_sql(compiler, connection, template=template, arg_joiner=") - JULIANDAY(", **more)


class StartedCall(NamedTuple):
    """A background call that a worker has started.

    ``client`` is the name of its client if it was requested.
    """

    tool: str
    principal: str
    worker: str
    client: str
    waited: float
    took: float | None
    failed: bool


def started_calls(
    since: datetime, until: datetime | None = None, *, clients: bool = False
) -> list[StartedCall]:
    """Return calls of a period that were started exactly once, from the newest MOST calls.

    Calls with several attempts are left out, because rows store only the times of the last attempt.
    """
    ended = {} if until is None else {"accepted_at__lt": until}
    # A subquery and not a join, for which PostgreSQL would read all sessions.
    session = Session.objects.filter(pk=OuterRef("logged")).order_by().values("client_name")
    client = Subquery(session) if clients else Value("", output_field=CharField())
    calls = Call.objects.filter(accepted_at__gte=since, **ended).annotate(logged=LOGGED_SESSION)
    rows = calls.order_by("-accepted_at").values_list(
        "tool", "principal", "worker", client, "attempt", "state",
        Seconds("started_at", Coalesce("decided_at", "accepted_at")), Seconds("finished_at", "started_at"),
    )  # fmt: skip
    return [
        StartedCall(tool, principal, worker, name or "", max(waited, 0.0), took, state == State.FAILED)
        for tool, principal, worker, name, attempt, state, waited, took in rows[:MOST]
        if waited is not None and attempt <= 1
    ]


def share(seconds: list[float], part: float) -> float | None:
    """Return the quantile ``part`` of the given seconds, or None if the list is empty."""
    if not seconds:
        return None
    return sorted(seconds)[min(int(len(seconds) * part), len(seconds) - 1)]
