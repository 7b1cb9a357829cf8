"""Preparation of the database, and the first administrator. This module does not know about processes."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.db import DEFAULT_DB_ALIAS, transaction

from mcp_app.auth.api_keys import issue_api_key
from mcp_app.checks.rows import squashed_migrations_are_whole
from mcp_app.prepare import prepare as prepare_catalogue

ADMINISTRATOR = "admin"


@dataclass(frozen=True, slots=True)
class FirstStart:
    """The generated credentials of the first administrator.

    They are shown once, and stored only as hashes.
    """

    user: str
    password: str = field(repr=False)
    api_key: str = field(repr=False)


def prepare() -> None:
    """Update the database, the catalogue entries from code and the roles to this version. It can be repeated.

    Raise django.db.Error if the database cannot be reached or changed. Raise CommandError if the migrations
    of an earlier version are incomplete.
    """
    # Checked here, because call_command runs no checks and Django's own advice would be wrong in this case.
    for found in squashed_migrations_are_whole(databases=[DEFAULT_DB_ALIAS]):
        raise CommandError(f"{found.msg} {found.hint}")
    call_command("migrate", interactive=False, verbosity=0)
    prepare_catalogue()


def first_administrator() -> FirstStart | None:
    """Create the first administrator with a password and an API key.

    Return None if there is a user already.
    """
    users = get_user_model().objects
    with transaction.atomic():
        if users.exists():
            return None
        password = secrets.token_urlsafe(15)
        user = users.create_superuser(ADMINISTRATOR, email="", password=password)
        _, api_key = issue_api_key(user=user, name="first start")
    return FirstStart(ADMINISTRATOR, password, api_key)
