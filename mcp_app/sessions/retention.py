"""Removes what retention allows: old messages, idle sessions' records (a periodic job)."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from mcp_app import conf
from mcp_app.models import Message, Session

SLICE = 5_000


def close_idle_sessions() -> int:
    """Mark sessions idle beyond their life as ended; their Redis copy has expired by itself."""
    settings = conf.get()
    now = timezone.now()
    idle = Session.objects.filter(
        ended_at=None, last_seen_at__lt=now - timedelta(seconds=settings.session_idle_seconds)
    )
    return idle.update(ended_at=now, end_reason="idle")


def purge_messages() -> int:
    """Delete messages, and ended sessions, older than the configured days; returns how many messages."""
    cutoff = timezone.now() - timedelta(days=conf.get().message_log_days)
    removed = 0
    while ids := list(
        Message.objects.filter(at__lt=cutoff).order_by("id").values_list("id", flat=True)[:SLICE]
    ):
        removed += Message.objects.filter(id__in=ids).delete()[0]
    Session.objects.filter(ended_at__lt=cutoff).delete()
    return removed
