"""Rows of the live list of sessions. Hidden characters of all texts are marked (S11)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Q

from mcp_app import conf
from mcp_app.auth.principal_names import CallerName, caller_names
from mcp_app.database import clock
from mcp_app.interface.text import UNNAMED_CLIENT, marked
from mcp_app.models import Call, Session
from mcp_app.models.call import LOGGED_SESSION
from mcp_app.protocol.call_state import OPEN

MOST = 500
# Seconds for which an ended session stays in the list of open sessions.
ENDED_SECONDS = 60


def session_rows(words: str = "", state: str = "open") -> tuple[list[dict[str, Any]], bool]:
    """Return the rows of sessions in a state (``open``, ``idle`` or ``ended``), last seen first.

    The second item is True if there are more sessions than the list shows.
    """
    found = Session.objects.filter(_in_state(state))
    for word in words.split()[:8]:
        found = found.filter(
            Q(client_name__icontains=word)
            | Q(client_version__icontains=word)
            | Q(principal__icontains=word)
            | Q(address__icontains=word)
            | Q(protocol_version=word)
            | Q(pk=word)
        )
    rows = list(found.order_by("-last_seen_at")[: MOST + 1])
    calls = background_calls([row.pk for row in rows])
    names = caller_names({row.principal for row in rows})
    return [session_row(row, names, calls.get(row.pk, 0)) for row in rows[:MOST]], len(rows) > MOST


def background_calls(sessions: list[str]) -> dict[str, int]:
    """Count the unfinished background calls of each session."""
    calls = Call.objects.filter(state__in=OPEN).annotate(logged_session=LOGGED_SESSION)
    found = calls.filter(logged_session__in=sessions).order_by()
    counted = found.values_list("logged_session").annotate(number=Count("pk"))
    return dict(counted)


def session_row(session: Session, names: Mapping[str, CallerName], calls: int = 0) -> dict[str, Any]:
    """Return the row of a stored session. ``calls`` is the number of its background calls."""
    return _row(
        session_id=session.pk,
        client=f"{session.client_name} {session.client_version}",
        version=session.protocol_version,
        principal=session.principal,
        name=names.get(session.principal),
        address=session.address,
        created=_milliseconds(session.created_at),
        seen=_milliseconds(session.last_seen_at),
        ended=_milliseconds(session.ended_at),
        reason=session.end_reason,
        calls=calls,
    )


def opened_row(fact: dict[str, Any], names: Mapping[str, CallerName]) -> dict[str, Any]:
    """Return the row of a new session from the "session.opened" fact of the message log."""
    return _row(
        session_id=str(fact["session"]),
        client=f"{fact['client_name']} {fact['client_version']}",
        version=str(fact["version"]),
        principal=str(fact["principal"]),
        name=names.get(str(fact["principal"])),
        address=str(fact["address"]),
        created=float(fact["at"]) * 1000,
        seen=float(fact["at"]) * 1000,
        ended=None,
        reason="",
        calls=0,
    )


def _row(
    *,
    session_id: str,
    client: str,
    version: str,
    principal: str,
    name: CallerName | None,
    address: str,
    created: float | None,
    seen: float | None,
    ended: float | None,
    reason: str,
    calls: int,
) -> dict[str, Any]:
    return {
        "id": session_id,
        "client": marked(client.strip()[:120] or UNNAMED_CLIENT),
        "version": marked(version),
        "who": marked(principal),
        "user": marked(name.without_credential) if name else marked(principal),
        "credential": marked(name.credential) if name else "",
        "address": marked(address),
        "created": created,
        "seen": seen,
        "ended": ended,
        "reason": marked(reason),
        "calls": calls,
    }


def _in_state(state: str) -> Q:
    idle_since = clock.utcnow() - timedelta(seconds=conf.get().session_idle_seconds)
    match state:
        case "idle":
            return Q(ended_at=None, last_seen_at__lt=idle_since)
        case "ended":
            return Q(ended_at__isnull=False)
    just_ended = clock.utcnow() - timedelta(seconds=ENDED_SECONDS)
    return Q(ended_at=None, last_seen_at__gte=idle_since) | Q(ended_at__gte=just_ended)


def _milliseconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp() * 1000
