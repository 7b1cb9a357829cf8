"""Owns the caller of a call as shown on pages: a person, or a person as another user."""

from __future__ import annotations

from collections.abc import Iterable

from django.contrib.auth import get_user_model

from mcp_app.models import Call
from mcp_app.protocol.principal_key import actor_of


def actors_of(calls: Iterable[Call]) -> dict[str, str]:
    """The names of persons who acted as another user in these calls, by primary key; one query."""
    keys = {actor for call in calls if (actor := actor_of(call.principal))}
    users = get_user_model()._default_manager.in_bulk(keys) if keys else {}
    return {str(pk): user.get_username() for pk, user in users.items()}


def asked_by(call: Call, actors: dict[str, str]) -> str:
    """``boss as jane`` when it was not jane herself; ``actors`` is what ``actors_of`` knows."""
    user = call.principal if call.user is None else call.user.get_username()
    actor = actor_of(call.principal)
    return f"{actors.get(actor, 'a deleted user')} as {user}" if actor else user
