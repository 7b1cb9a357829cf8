"""The origin of a call as displayed: the person, their API key, their client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import orjson
from django.db.models.fields.json import KT

from mcp_app.auth.principal_names import principal_names
from mcp_app.models import Call

# The only part of ``session_fields``, which may be long, that a list needs for the client's name.
SAID_OF_CLIENT = KT("session_fields__client")


def names_of(calls: Iterable[Call]) -> dict[str, str]:
    """Return the names behind the credentials of these calls, in two queries."""
    return principal_names({call.principal for call in calls})


def asked_by(call: Call, names: Mapping[str, str]) -> str:
    """Return ``jane, by the key "laptop"`` or ``boss as jane``; ``names`` comes from ``names_of``."""
    return names.get(call.principal, call.principal)


def asked_with(call: Call) -> str:
    """Return the client's name; the call must be annotated with ``client_said``."""
    return client_name(getattr(call, "client_said", "")) or "(no name)"


def client_name(said: str | None) -> str:
    """Return the client's name from its stored JSON description; empty if unknown."""
    try:
        client = orjson.loads(said or "{}")
    except orjson.JSONDecodeError:
        return ""
    return str(client.get("name") or "")[:60] if isinstance(client, dict) else ""
