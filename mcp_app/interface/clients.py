"""Client names of sessions."""

from __future__ import annotations

from collections.abc import Iterable

from mcp_app.models import Session


def client_names(sessions: Iterable[str]) -> dict[str, str]:
    """Map ids of stored sessions to the names of their clients, in one query."""
    ids = set(sessions)
    return dict(Session.objects.filter(pk__in=ids).values_list("pk", "client_name")) if ids else {}
