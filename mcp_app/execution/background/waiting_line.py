"""Progress reports on a call's place in the queue: ``3 of 12 waiting``.

A periodic pass in any process reports the first calls of each queue, which costs less than a report
whenever a call starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db.models import Count, Min, Q

from mcp_app.database import clock
from mcp_app.execution.background import approval
from mcp_app.execution.background.answer_streams import connected
from mcp_app.execution.stored.pending_approvals import Waiting
from mcp_app.models import Call
from mcp_app.streams.gateway import Streams

# Calls that have waited for less time will probably start before a client could read the report.
PATIENCE_SECONDS = 5.0
REMIND_SECONDS = 10.0
# Maximum number of calls reported for each queue and lane, and maximum number of queues and lanes per pass.
NOTIFIED, LINES = 100, 20


def sweep() -> None:
    """Report their place to calls that have waited for long enough and had no recent report."""
    notices = [each for line in _lines() for each in _due_notices(*line)]
    if notices:
        connected(lambda streams: _notify_all(streams, notices))


def _lines() -> Iterator[tuple[Any, int]]:
    """Yield each queue and lane with a long wait: its calls in order, and how many calls wait there."""
    accepted = Call.objects.extra(where=["state = 'accepted'"]).order_by()  # As SQL: for the index.
    lines = accepted.values("queue", "lane").annotate(number=Count("pk"), oldest=Min("accepted_at"))
    for line in lines.filter(oldest__lt=clock.now(-PATIENCE_SECONDS))[:LINES]:
        calls = accepted.filter(queue=line["queue"], lane=line["lane"])
        yield calls.order_by("-priority", "start_tag", "accepted_at"), line["number"]


def _due_notices(calls: Any, number: int) -> list[tuple[Waiting, str]]:
    # The client of a task polls, so it needs no report.
    silent = Q(reminded_at=None) | Q(reminded_at__lt=clock.now(-REMIND_SECONDS))
    due = calls.filter(silent, accepted_at__lt=clock.now(-PATIENCE_SECONDS), task_until=None, attempt=0)
    first = list(calls.values_list("pk", flat=True)[:NOTIFIED])
    places = {pk: place for place, pk in enumerate(first, 1)}
    rows = due.filter(pk__in=first, meta__contains='"progressToken"').annotate(**clock.read_at())
    return [
        (Waiting.of(row), f"{places[row.pk]} of {max(number, places[row.pk])} waiting")
        for row in rows.defer("arguments", "answer")
        # The process that records a report sends it. It records it before the call starts, so that the
        # attempt knows of the report.
        if due.filter(pk=row.pk).update(reminded_at=clock.now())
    ]


async def _notify_all(streams: Streams, notices: list[tuple[Waiting, str]]) -> None:
    for waiting, words in notices:
        if "progressToken" in waiting.meta:
            await approval.notify(streams, waiting, words)
