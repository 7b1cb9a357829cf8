"""Names of clients by session."""

from __future__ import annotations

from collections.abc import Iterable

from mcp_app.models import Session


def client_names(sessions: Iterable[str]) -> dict[str, str]:
    """Return the client names of stored sessions, in one query."""
    return dict(Session.objects.filter(pk__in=set(sessions)).values_list("pk", "client_name"))
