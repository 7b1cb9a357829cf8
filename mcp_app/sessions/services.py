"""Functions about sessions for synchronous callers, such as the admin and management commands."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q

from mcp_app import conf
from mcp_app.database import clock
from mcp_app.message_log import session_ends
from mcp_app.models import Session, audit
from mcp_app.sessions.exchange import CLIENT_RECORD
from mcp_app.streams.blocking.announce import end_session, open_sessions


def idle_since() -> datetime:
    """Return the latest time that the last request of an idle session can have."""
    return clock.utcnow() - timedelta(seconds=conf.get().session_idle_seconds)


def session_states() -> dict[str, Q]:
    """Map each state of a session to its query condition."""
    return {
        "open": Q(ended_at=None, last_seen_at__gte=idle_since()),
        "idle": Q(ended_at=None, last_seen_at__lt=idle_since()),
        "ended": Q(ended_at__isnull=False),
    }


def end_session_now(
    *, session_id: str, actor: Any = None, reason: str = "by an administrator", principal: str = ""
) -> bool:
    """End a session from synchronous code. With its ``principal``, the session need not have a row yet.

    Returns False if the session has already ended. Also returns False for the record of a modern client,
    because that client has no session.
    """
    if session_id.startswith(CLIENT_RECORD):
        return False
    with transaction.atomic():
        changed = session_ends.store(session_id, reason, clock.now(), principal)
        audit(
            actor=actor,
            action="session.end",
            object_kind="session",
            object_key=session_id,
            detail={"reason": reason},
        )
        transaction.on_commit(lambda: end_session(session_id, reason))
    return changed


def end_sessions_of(principal: str, *, actor: Any, reason: str) -> int:
    """End all open sessions of a principal. Return their number."""
    found = Session.objects.filter(principal=principal, ended_at=None).values_list("pk", flat=True)
    stored = list(found)
    ended = sum(end_session_now(session_id=pk, actor=actor, reason=reason) for pk in stored)
    # A new session is in Redis before it has a row.
    new = set(open_sessions(principal)).difference(stored)
    for session_id in new:
        end_session_now(session_id=session_id, actor=actor, reason=reason, principal=principal)
    return ended + len(new)
