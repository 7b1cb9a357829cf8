"""Database records of sessions, used when Redis lost the session."""

from __future__ import annotations

from mcp_app.database import clock
from mcp_app.models import Session


def find_record(session_id: str, idle_seconds: int) -> dict[str, str] | None:
    """Return the stored fields of a session that neither ended nor was idle for too long, else None."""
    alive_since = clock.now(-idle_seconds)
    row = Session.objects.filter(pk=session_id, ended_at=None, last_seen_at__gte=alive_since).first()
    return {str(key): str(value) for key, value in row.fields.items()} if row and row.fields else None
