"""The user that a command records as the author of its changes."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import CommandError


def actor_named(username: str | None) -> Any:
    """Return the user with this name, or None without a name. Raises CommandError for an unknown user."""
    if username is None:
        return None
    users = get_user_model()
    try:
        return users._default_manager.get(**{users.USERNAME_FIELD: username})
    except users.DoesNotExist as error:
        raise CommandError(f"There is no user {username!r}: name an existing one with --actor.") from error
