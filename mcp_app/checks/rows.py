"""Checks of the database. ``migrate`` and ``check --database default`` run them.

Dependencies are imported within the checks, because no other process needs them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from django.core import checks
from django.core.checks import CheckMessage, Error, Tags, Warning  # noqa: A004 - Django's name
from django.db import connection

from mcp_app.models import LimitRule, NotificationChannel, Prompt, Resource, ResourceTemplate, Tool


def _can_be_read(databases: Iterable[str] | None) -> bool:
    """Return True if the checks may query the database ``default`` and it is fully migrated."""
    from mcp_app.prepare import is_migrated

    return "default" in (databases or ()) and is_migrated()


@checks.register(Tags.database)
def squashed_migrations_are_whole(databases: Iterable[str] | None = None, **_: Any) -> list[CheckMessage]:
    """Check that of the migrations replaced by a squashed migration, either all or none have been applied.

    Otherwise Django would report a conflict and suggest a wrong remedy.
    """
    if "default" not in (databases or ()):
        return []
    from django.db.migrations.loader import MigrationLoader
    from django.db.migrations.recorder import MigrationRecorder

    loader = MigrationLoader(None, load=False)
    loader.load_disk()
    applied = MigrationRecorder(connection).applied_migrations()
    return [
        Error(
            f"The database has only some of the migrations that {label}.{name} replaces.",
            hint="Run `migrate` with the commit named in docs/operate/upgrade.md, then with this one.",
            id="mcp_app.E033",
        )
        for (label, name), migration in loader.disk_migrations.items()
        if label == "mcp_app" and {key in applied for key in migration.replaces} == {True, False}
    ]


@checks.register(Tags.database)
def permissions_of_rows_exist(databases: Iterable[str] | None = None, **_: Any) -> list[CheckMessage]:
    """Warn about catalogue entries whose permission does not exist."""
    from django.contrib.auth.models import Permission

    if not _can_be_read(databases):
        return []
    known = {
        f"{app}.{name}" for app, name in Permission.objects.values_list("content_type__app_label", "codename")
    }
    return [
        Warning(
            f"The {kind._meta.verbose_name} {str(row)[:80]!r} requires the permission {row.permission!r}, "
            "which does not exist.",
            hint="Correct it in the admin. Until then only superusers see the entry.",
            id="mcp_app.W014",
        )
        for kind in (Tool, Prompt, Resource, ResourceTemplate)
        for row in kind.objects.exclude(permission="").order_by("pk")
        if row.permission not in known
    ]


@checks.register(Tags.database)
def subjects_of_limits_exist(databases: Iterable[str] | None = None, **_: Any) -> list[CheckMessage]:
    """Warn about limits that limit no call."""
    from mcp_app.interface.text import marked
    from mcp_app.limits.subjects import without_effect

    if not _can_be_read(databases):
        return []
    rows = list(LimitRule.objects.filter(enabled=True))
    reasons = without_effect(rows)
    return [
        Warning(
            f"The limit {row.name} limits no call: {marked(reasons[row.pk])}.",
            hint="Change its callers or tools in the admin, or delete it.",
            id="mcp_app.W046",
        )
        for row in rows
        if row.pk in reasons
    ]


@checks.register(Tags.database)
def mails_can_be_sent(databases: Iterable[str] | None = None, **_: Any) -> list[CheckMessage]:
    """Warn if users chose notifications by e-mail, but no mail server is configured."""
    from mcp_app.notices.mail import is_configured

    if is_configured() or not _can_be_read(databases):
        return []
    wanted = NotificationChannel.objects.filter(way=NotificationChannel.Way.EMAIL).exclude(kinds=[])
    if not (people := wanted.count()):
        return []
    text = f"No mail server is configured. Users with e-mail notifications: {people}."
    return [
        Warning(
            text,
            hint="Set EMAIL_URL, or EMAIL_HOST and related settings in your own project.",
            id="mcp_app.W032",
        )
    ]


@checks.register(Tags.database)
def entries_of_code_are_offered(databases: Iterable[str] | None = None, **_: Any) -> list[CheckMessage]:
    """Warn about entries in code that have no row. ``migrate`` and ``mcp_prepare`` create the rows."""
    from mcp_app.catalogue.changes.mirroring import not_in_database

    # ``migrate`` runs the checks first and creates the rows last.
    if sys.argv[1:2] == ["migrate"] or not _can_be_read(databases):
        return []
    if not (absent := not_in_database()):
        return []
    names = ", ".join(absent[:3]) + (f" and {len(absent) - 3} more" if len(absent) > 3 else "")
    text = f"Entries in code are missing from the database and not offered: {names}."
    return [Warning(text, hint="Run `manage.py migrate` or `manage.py mcp_prepare`.", id="mcp_app.W020")]
