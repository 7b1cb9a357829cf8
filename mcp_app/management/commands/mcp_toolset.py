"""``manage.py mcp_toolset``: add, list and remove toolsets without the admin."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from mcp_app.catalogue.snapshots.toolsets import path_of
from mcp_app.catalogue.toolsets.contents import contents_of_each
from mcp_app.catalogue.toolsets.groups import memberships_of, names_of
from mcp_app.catalogue.toolsets.services import delete_toolset, save_toolset
from mcp_app.interface.text import counted, marked
from mcp_app.models import Toolset


class Command(BaseCommand):
    """Manage toolsets. The audit trail names no user for these changes."""

    help = "Add, list and remove toolsets: parts of the catalogue at separate addresses."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        add = actions.add_parser("add", help="Add a toolset, which is available at once.")
        add.add_argument("slug", metavar="SLUG", help="the last part of its address: a-z, 0-9 and -")
        add.add_argument("--title", default="", help="shown by clients instead of the slug")
        add.add_argument("--tool", action="append", default=[], metavar="NAME", help="a tool; repeatable")
        add.add_argument("--tag", action="append", default=[], help="entries with this tag; repeatable")
        add.add_argument("--prefix", action="append", default=[], help="entries whose name begins with it")
        add.add_argument("--group", action="append", default=[], help="a group that can use it; repeatable")
        add.add_argument("--search", action="store_true", help="search instead of a list of tools")
        add.add_argument(
            "--audience",
            choices=Toolset.Audience.values,
            help="who can use it (default: groups with --group, else everyone)",
        )
        actions.add_parser("list", help="List all toolsets with their estimated tokens.")
        remove = actions.add_parser("remove", help="Remove a toolset. Its streams end at once.")
        remove.add_argument("slug", metavar="SLUG")

    def handle(self, *, action: str, **options: Any) -> None:
        try:
            {"add": self._add, "list": self._list, "remove": self._remove}[action](options)
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from None

    def _add(self, options: dict[str, Any]) -> None:
        usual = Toolset.Audience.GROUPS if options["group"] else Toolset.Audience.EVERYONE
        row = save_toolset(
            actor=None,
            slug=options["slug"],
            title=options["title"],
            members=[{"kind": "tool", "key": name} for name in dict.fromkeys(options["tool"])],
            rules=[{name: value} for name in ("tag", "prefix") for value in options[name]],
            searches=options["search"],
            permissions=memberships_of(options["group"]),
            audience=options["audience"] or usual,
        )
        self._show([row])

    def _list(self, options: dict[str, Any]) -> None:
        self._show(list(Toolset.objects.all()))

    def _remove(self, options: dict[str, Any]) -> None:
        row = Toolset.objects.filter(slug=options["slug"]).first()
        if row is None:
            raise CommandError(f"There is no toolset {options['slug']!r}.")
        delete_toolset(toolset=row, actor=None)
        self.stdout.write(f"Removed {row.slug}.")

    def _show(self, rows: list[Toolset]) -> None:
        for row, contents in zip(rows, contents_of_each(rows), strict=True):
            who = ", ".join(map(marked, names_of(row.permissions))) or "no group"
            audience = who if row.audience == Toolset.Audience.GROUPS else row.get_audience_display()
            state = "" if row.enabled else "  disabled"
            size = f"{counted(len(contents.members), 'entry', 'entries')}, about {contents.tokens:,} tokens"
            self.stdout.write(f"{path_of(row.slug)}  {size}  {audience}{state}")
