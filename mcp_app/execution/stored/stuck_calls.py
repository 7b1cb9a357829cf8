"""Stuck background calls: calls whose state has not changed for longer than any sweep takes."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from django.db.models import QuerySet

from mcp_app.database import clock
from mcp_app.models import Call
from mcp_app.protocol.call_state import ACTIVE, State

# A working reaper handles such calls within seconds.
LEASE_IS_OVER: Final = timedelta(minutes=2)
WAITS_LONG: Final = timedelta(minutes=15)


def lost_calls() -> QuerySet[Call]:
    """Return running calls that have lost their worker and have not been ended or restarted."""
    over = clock.lease(-LEASE_IS_OVER.total_seconds())
    return Call.objects.filter(state__in=ACTIVE, lease_until__lt=over)


def long_waiting_calls() -> QuerySet[Call]:
    """Return calls that have waited too long for a worker."""
    return Call.objects.filter(state=State.ACCEPTED, accepted_at__lt=clock.utcnow() - WAITS_LONG)
