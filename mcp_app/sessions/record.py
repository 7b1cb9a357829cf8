"""Database records of sessions, which are used if Redis has lost the session."""

from __future__ import annotations

from mcp_app.database import clock
from mcp_app.models import Session


def find_record(session_id: str, idle_seconds: int) -> dict[str, str] | None:
    """Return the stored fields of an active session, or None.

    A session is not active if it ended or if its last request is more than ``idle_seconds`` ago.
    """
    alive_since = clock.now(-idle_seconds)
    row = Session.objects.filter(pk=session_id, ended_at=None, last_seen_at__gte=alive_since).first()
    return {str(key): str(value) for key, value in row.fields.items()} if row and row.fields else None
