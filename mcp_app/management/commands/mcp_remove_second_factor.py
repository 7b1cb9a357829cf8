"""``manage.py mcp_remove_second_factor NAME``: for a sole administrator who lost the device."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError, CommandParser

from mcp_app.optional_parts import SECOND_FACTOR


class Command(BaseCommand):
    """Remove one person's second factor and record it in the audit trail."""

    help = "Remove the second factor of a user who lost the device and the recovery codes."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username")

    def handle(self, *, username: str, **_: Any) -> None:
        if not SECOND_FACTOR.is_there():
            raise CommandError(SECOND_FACTOR.remedy())
        from mcp_app.oauth.second_factor import factors

        model: Any = get_user_model()
        user = model._default_manager.filter(**{model.USERNAME_FIELD: username}).first()
        if user is None:
            raise CommandError(f"There is no user {username!r}.")
        if not factors.remove(user, actor=None):
            raise CommandError(f"{username} has no second factor.")
        self.stdout.write(f"The second factor of {username} was removed.")
