"""Counts of open calls in the database by queue and state, and the names of the queues."""

from __future__ import annotations

from collections import Counter

from django.db.models import Count

from mcp_app.execution.stored.call_record import DEFAULT_QUEUE
from mcp_app.execution.stored.records import OPEN
from mcp_app.models import Call, Tool


def open_calls() -> Counter[tuple[str, str]]:
    """Return the number of open calls by queue and state."""
    rows = Call.objects.filter(OPEN).order_by().values_list("queue", "state")
    return Counter({(queue, state): count for queue, state, count in rows.annotate(Count("pk"))})


def queue_names(states: Counter[tuple[str, str]]) -> list[str]:
    """Return the names of all queues that contain calls or may get calls."""
    named = Tool.objects.exclude(queue="").order_by().values_list("queue", flat=True).distinct()
    return sorted({DEFAULT_QUEUE, *named, *(queue for queue, _ in states)})
