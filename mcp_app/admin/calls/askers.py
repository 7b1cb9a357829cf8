"""Owns who asked for a call as shown where calls are decided about: a person, their key, their client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import orjson
from django.db.models.fields.json import KT

from mcp_app.auth.principal_names import principal_names
from mcp_app.models import Call

# What a list reads of ``session_fields``, which may be long, for the client's name.
SAID_OF_CLIENT = KT("session_fields__client")


def names_of(calls: Iterable[Call]) -> dict[str, str]:
    """Who is behind the credentials of these calls; two queries, however many there are."""
    return principal_names({call.principal for call in calls})


def asked_by(call: Call, names: Mapping[str, str]) -> str:
    """``jane, by the key "laptop"``, or ``boss as jane``; ``names`` is what ``names_of`` knows."""
    return names.get(call.principal, call.principal)


def asked_with(call: Call) -> str:
    """What the client of a call called itself, of one that a list has annotated as ``client_said``."""
    return client_name(getattr(call, "client_said", "")) or "(no name)"


def client_name(said: str | None) -> str:
    """What a client called itself, from the stored JSON of its description."""
    try:
        client = orjson.loads(said or "{}")
    except orjson.JSONDecodeError:
        return ""
    return str(client.get("name") or "")[:60] if isinstance(client, dict) else ""
