"""Owns the names of clients, where the log has sessions."""

from __future__ import annotations

from collections.abc import Iterable

from mcp_app.models import Session


def client_names(sessions: Iterable[str]) -> dict[str, str]:
    """What the clients of these sessions call themselves, as far as they are stored; one query."""
    return dict(Session.objects.filter(pk__in=set(sessions)).values_list("pk", "client_name"))
