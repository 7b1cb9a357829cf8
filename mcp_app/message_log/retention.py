"""Retention: deletion of old messages and sessions, end of idle sessions (periodic tasks).

Deletes in slices, each in its own transaction, with pauses: SQLite allows one writer at a time, and others
must not wait long.
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
# Maximum duration of one pass. The next pass, minutes later, continues.
PASS_SECONDS = 120.0
# End reason of a session without recent requests. It is reopened by a new request.
IDLE = "idle"
PAUSE = 1.0  # as a share of the time a slice took


def close_idle_sessions() -> int:
    """Mark sessions that were idle for too long as ended. Their copies in Redis have expired."""
    settings = conf.get()
    since = clock.now(-settings.session_idle_seconds)
    idle = Session.objects.filter(ended_at=None, last_seen_at__lt=since)
    return idle.update(ended_at=clock.now(), end_reason=IDLE)


def purge_messages() -> int:
    """Delete messages beyond the configured age or number, and return their number.

    Ended sessions of that age are deleted, too, with their late messages.
    """
    settings = conf.get()
    until = time.monotonic() + PASS_SECONDS
    cutoff = clock.now(-DAY_SECONDS * settings.message_log_days)
    removed = 0
    if settings.message_log_rows and (newest := Message.objects.order_by("-pk").first()) is not None:
        # By id, not by counting: ids have gaps where a batch was refused, so slightly fewer may remain.
        beyond = Message.objects.filter(pk__lte=newest.pk - settings.message_log_rows)
        removed += _delete(beyond.order_by("pk"), until)
    # By the index on time: in the order of ids the last query, which finds nothing, would read every row.
    removed += _delete(Message.objects.filter(at__lt=cutoff).order_by("at"), until)
    _delete(Session.objects.filter(ended_at__lt=cutoff).order_by("ended_at"), until)
    return removed


def _delete(rows: QuerySet[Any], until: float) -> int:
    removed = 0
    while time.monotonic() < until:
        begun = time.monotonic()
        ids = list(rows.values_list("pk", flat=True)[:SLICE])
        if not ids:
            break
        rows.model._default_manager.filter(pk__in=ids).delete()
        removed += len(ids)
        time.sleep((time.monotonic() - begun) * PAUSE)
    return removed
