"""Removes what retention allows: old messages, idle sessions' records, old counts (a periodic job).

In slices, each a transaction of its own, and with pauses: SQLite has one writer at a time, and others must
not wait for long.
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
# What one pass may take; what is left is for the next one, minutes later.
PASS_SECONDS = 120.0
# Why a session ended that nobody has heard of for long; it is open again when somebody does.
IDLE = "idle"
PAUSE = 1.0  # as a share of the time a slice took


def close_idle_sessions() -> int:
    """Mark sessions idle beyond their life as ended; their Redis copy has expired by itself."""
    settings = conf.get()
    since = clock.now(-settings.session_idle_seconds)
    idle = Session.objects.filter(ended_at=None, last_seen_at__lt=since)
    return idle.update(ended_at=clock.now(), end_reason=IDLE)


def purge_messages() -> int:
    """Delete messages older than the configured days or beyond the configured number; returns how many.

    Ended sessions go with their time, and with them messages that came late.
    """
    settings = conf.get()
    until = time.monotonic() + PASS_SECONDS
    cutoff = clock.now(-DAY_SECONDS * settings.message_log_days)
    removed = 0
    if settings.message_log_rows and (newest := Message.objects.order_by("-pk").first()) is not None:
        # By id, not by counting: ids have gaps where a batch was refused, so this may keep a few fewer.
        beyond = Message.objects.filter(pk__lte=newest.pk - settings.message_log_rows)
        removed += _delete(beyond.order_by("pk"), until)
    # By the index on time: in the order of ids the last look, which finds nothing, would read every row.
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
