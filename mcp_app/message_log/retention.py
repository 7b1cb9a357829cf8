"""Retention of the message log: periodic tasks delete old messages and sessions and end idle sessions.

Rows are deleted in slices, each in its own transaction, with pauses between them. SQLite allows one writer at
a time, and other writers must not wait long.
"""

from __future__ import annotations

import time
from typing import Any

from django.db.models import QuerySet

from mcp_app import conf
from mcp_app.database import clock
from mcp_app.models import Message, Session

SLICE = 500
DAY_SECONDS = 86_400
# Maximum duration of one run in seconds. The next run, minutes later, continues.
PASS_SECONDS = 120.0
# End reason of a session that had no recent requests. A new request reopens the session.
IDLE = "idle"
PAUSE = 1.0  # Relative to the time that the slice took.


def close_idle_sessions() -> int:
    """Mark sessions without recent requests as ended. Their copies in Redis have already expired."""
    settings = conf.get()
    since = clock.now(-settings.session_idle_seconds)
    idle = Session.objects.filter(ended_at=None, last_seen_at__lt=since)
    return idle.update(ended_at=clock.now(), end_reason=IDLE)


def purge_messages() -> int:
    """Delete messages beyond the configured age or number. Return the number of deleted messages.

    Ended sessions of that age are deleted as well, together with their remaining messages.
    """
    settings = conf.get()
    until = time.monotonic() + PASS_SECONDS
    cutoff = clock.now(-DAY_SECONDS * settings.message_log_days)
    removed = 0
    if settings.message_log_rows and (newest := Message.objects.order_by("-pk").first()) is not None:
        # Messages are selected by id instead of counted. Ids have gaps where a batch was rejected, so
        # slightly fewer messages may remain.
        beyond = Message.objects.filter(pk__lte=newest.pk - settings.message_log_rows)
        removed += _delete(beyond.order_by("pk"), until)
    # Ordered by time, so that the index on time is used. Ordered by id, the last query would read every row
    # and find nothing.
    removed += _delete(Message.objects.filter(at__lt=cutoff).order_by("at"), until)
    _delete(Session.objects.filter(ended_at__lt=cutoff).order_by("ended_at"), until)
    return removed


def _delete(rows: QuerySet[Any], until: float) -> int:
    removed = 0
    while time.monotonic() < until:
        started = time.monotonic()
        ids = list(rows.values_list("pk", flat=True)[:SLICE])
        if not ids:
            break
        rows.model._default_manager.filter(pk__in=ids).delete()
        removed += len(ids)
        time.sleep((time.monotonic() - started) * PAUSE)
    return removed
