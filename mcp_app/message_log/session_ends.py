"""Ends of sessions in their records, also if another process stores the beginning later."""

from __future__ import annotations

from datetime import datetime

from django.db.models import QuerySet

from mcp_app.models import Session


def store(session_id: str, reason: str, at: datetime, principal: str) -> bool:
    """Store the end of a session. Return False if its record has an end.

    Without a record, one with the end is created for ``principal``, if it is not empty. Otherwise a beginning
    that is stored later would leave the session open.
    """
    end = {"ended_at": at, "end_reason": reason[:60]}
    if Session.objects.filter(pk=session_id, ended_at=None).update(**end):
        return True
    if not principal:
        return False
    times = {"created_at": at, "last_seen_at": at}
    _, is_new = Session.objects.get_or_create(
        pk=session_id, defaults={"principal": principal, **times, **end}
    )
    return is_new


def stored_early(session_id: str) -> QuerySet[Session]:
    """Return the record of a session whose end was stored before its beginning."""
    return Session.objects.filter(pk=session_id, protocol_version="", ended_at__isnull=False)
