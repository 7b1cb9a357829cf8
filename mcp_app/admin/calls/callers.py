"""The origin of a call for display: the user, the user's API key, and the client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import orjson
from django.db.models.fields.json import KT

from mcp_app.auth.principal_names import principal_names
from mcp_app.interface.text import UNNAMED_CLIENT
from mcp_app.models import Call

# A list needs only this part of ``session_fields``, a column that may be long.
STORED_CLIENT = KT("session_fields__client")


def names_of(calls: Iterable[Call]) -> dict[str, str]:
    """Map the principals of these calls to display names, in two queries."""
    return principal_names({call.principal for call in calls})


def caller_of(call: Call, names: Mapping[str, str]) -> str:
    """Return text such as ``jane · laptop`` or ``boss as jane``.

    ``names`` is a result of ``names_of``.
    """
    return names.get(call.principal, call.principal)


def client_of(call: Call) -> str:
    """Return the name of the client. The queryset must have annotated the call with ``client_said``."""
    return client_name(getattr(call, "client_said", "")) or UNNAMED_CLIENT


def client_name(stored: str | None) -> str:
    """Return the client's name from its stored JSON description, or "" if it has none."""
    try:
        client = orjson.loads(stored or "{}")
    except orjson.JSONDecodeError:
        return ""
    return str(client.get("name") or "")[:60] if isinstance(client, dict) else ""
