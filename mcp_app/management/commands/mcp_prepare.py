"""``manage.py mcp_prepare``: update the catalogue and the roles as ``migrate`` does at its end."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from mcp_app.interface.text import counted
from mcp_app.prepare import prepare


class Command(BaseCommand):
    """Store the catalogue from code and the roles in the database."""

    help = "Store the tools, prompts and resources from code, and the roles, in the database."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            mirrored, made = prepare()
        except DatabaseError as error:
            raise CommandError(f"The database cannot be used: {error}. Run `manage.py migrate`.") from None
        updated, roles = counted(mirrored.changed, "entry", "entries"), counted(len(made), "role")
        self.stdout.write(f"{updated} updated, {roles} created or completed.")
        for name in mirrored.refused:
            self.stderr.write(f"Skipped {name}: an entry created in the admin has this name.")
        for problem in mirrored.unreadable:
            self.stderr.write(f"Not offered: {problem}")
