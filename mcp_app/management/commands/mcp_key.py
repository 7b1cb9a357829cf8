"""``manage.py mcp_key``: issue, list, replace and revoke API keys without the admin."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from mcp_app import conf
from mcp_app.auth.api_keys import (
    NEVER_ENDS,
    OLD_KEY_ENDS,
    USUAL_DAYS,
    ends_in,
    issue_api_key,
    key_states,
    replace_api_key,
    revoke_api_key,
)
from mcp_app.interface.text import marked
from mcp_app.models import ApiKey
from mcp_app.protocol.scopes import ALL, BASIC

KEYS_ARE_OFF = "API keys are disabled: API_KEYS is off."
MOST_DAYS = 36_500


class Command(BaseCommand):
    """Manage API keys. The audit trail names no user for these changes."""

    help = "Issue, list, replace and revoke API keys. A key has the permissions of its user."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        add = actions.add_parser("add", help="Add a key and print it; it cannot be shown again.")
        add.add_argument("user", metavar="USER", help="the name the user logs in with")
        add.add_argument("--name", required=True, help="a name that distinguishes the keys of a user")
        add.add_argument(
            "--days",
            type=int,
            default=USUAL_DAYS[1],
            help="days until the key expires, 0 for never (default: %(default)s)",
        )
        add.add_argument(
            "--scope",
            action="append",
            choices=ALL,
            help=f"a scope of the key, can be repeated (default: {' '.join(BASIC)})",
        )
        actions.add_parser("list", help="List all keys, without their secrets.")
        replace = actions.add_parser(
            "replace", help="Issue the same key again, print it, and end the old key."
        )
        replace.add_argument("id", type=int, metavar="ID", help="the id of a key, from `mcp_key list`")
        replace.add_argument(
            "--old-key-ends",
            choices=tuple(OLD_KEY_ENDS),
            default="now",
            help="when the old key ends (default: %(default)s)",
        )
        revoke = actions.add_parser("revoke", help="Revoke a key at once, in every process.")
        revoke.add_argument("id", type=int, metavar="ID", help="the id of a key, from `mcp_key list`")

    def handle(self, *, action: str, **options: Any) -> None:
        {"add": self._add, "list": self._list, "replace": self._replace, "revoke": self._revoke}[action](
            options
        )

    def _add(self, options: dict[str, Any]) -> None:
        if not conf.get().api_keys:
            raise CommandError(KEYS_ARE_OFF)
        expires_at = _expiry(options["days"])
        key, secret = _issue(_user(options["user"]), options["name"], expires_at, options["scope"] or BASIC)
        self._show(key, secret)

    def _show(self, key: ApiKey, secret: str) -> None:
        # Only the key goes to standard output, so that scripts can store it.
        self.stdout.write(secret)
        until = f"expires on {key.expires_at:%Y-%m-%d}" if key.expires_at else "never expires"
        name = marked(key.user.get_username())
        self.stderr.write(f"Key {key.pk} of {name}: {until}. It cannot be shown again.")
        if key.expires_at is None:
            self.stderr.write(NEVER_ENDS)

    def _list(self, options: dict[str, Any]) -> None:
        rows = [("ID", "USER", "NAME", "KEY", "STATE", "EXPIRES", "LAST USED")]
        for state, condition in key_states().items():
            for key in ApiKey.objects.filter(condition).select_related("user"):
                used, ends = _day(key.last_used_at), _day(key.expires_at)
                name = marked(key.user.get_username())
                rows.append((str(key.pk), name, marked(key.name), f"{key.prefix}…", state, ends, used))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
            self.stdout.write("  ".join(cells).rstrip())

    def _replace(self, options: dict[str, Any]) -> None:
        if not conf.get().api_keys:
            raise CommandError(KEYS_ARE_OFF)
        key = _key(options["id"])
        try:
            new, secret, _ = replace_api_key(key=key, old_key_ends=options["old_key_ends"])
        except ValidationError as error:
            raise CommandError("\n".join(error.messages)) from error
        self._show(new, secret)
        ends = f"stays valid until {key.expires_at:%Y-%m-%d %H:%M %Z}" if key.usable else "has expired"
        self.stderr.write(f"The old key {key.pk} {ends}.")

    def _revoke(self, options: dict[str, Any]) -> None:
        key = _key(options["id"])
        if key.revoked_at is not None:
            raise CommandError(f"Key {key.pk} was revoked on {_day(key.revoked_at)}.")
        revoke_api_key(key=key)
        self.stdout.write(f"Revoked key {key.pk} of {marked(key.user.get_username())}.")


def _key(pk: int) -> ApiKey:
    key = ApiKey.objects.select_related("user").filter(pk=pk).first()
    if key is None:
        raise CommandError(f"There is no key {pk}. `manage.py mcp_key list` shows all.")
    return key


def _user(name: str) -> Any:
    model: Any = get_user_model()
    try:
        return model._default_manager.get_by_natural_key(name)
    except model.DoesNotExist:
        raise CommandError(f"There is no user {name!r}.") from None


def _expiry(days: int) -> datetime | None:
    if not 0 <= days <= MOST_DAYS:
        raise CommandError(f"--days must be from 0 to {MOST_DAYS}.")
    return ends_in(days) if days else None


def _issue(user: Any, name: str, expires_at: datetime | None, scopes: Collection[str]) -> tuple[ApiKey, str]:
    try:
        return issue_api_key(user=user, name=name, expires_at=expires_at, scopes=scopes)
    except ValidationError as error:
        raise CommandError("\n".join(error.messages)) from error


def _day(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d}" if moment else "never"
