"""``manage.py mcp_import``: import a catalogue file, or print the differences."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from django.core.exceptions import PermissionDenied
from django.core.management.base import BaseCommand, CommandError, CommandParser

from mcp_app.catalogue.transfer import (
    MAX_BYTES,
    NOTATIONS,
    Imported,
    TransferRefused,
    import_catalogue,
    notation_of,
)
from mcp_app.catalogue.transfer.report import difference_lines, problem_lines
from mcp_app.management.actors import actor_named


class Command(BaseCommand):
    """Import the whole file or nothing."""

    help = "Import tools, prompts, resources and templates from a file of mcp_export."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", metavar="FILE", help="- reads standard input")
        parser.add_argument("--format", choices=NOTATIONS, help="default: the suffix of FILE, else json")
        parser.add_argument("--dry-run", action="store_true", help="print the changes without applying them")
        parser.add_argument(
            "--prune",
            action="store_true",
            help="also delete administrators' entries absent from the file, and reset entries from code",
        )
        parser.add_argument(
            "--actor", metavar="USERNAME", help="the user recorded in history and audit trail"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        name = options["file"]
        try:
            imported = import_catalogue(
                _content(name),
                options["format"] or notation_of(name),
                actor=actor_named(options["actor"]),
                prune=options["prune"],
                dry_run=options["dry_run"],
            )
        except TransferRefused as refused:
            lines = problem_lines(refused.problems)
            raise CommandError(
                "\n".join([f"Nothing was changed. Problems: {len(lines)}", *lines])
            ) from refused
        except PermissionDenied as denied:
            raise CommandError(f"Nothing was changed. {denied}") from denied
        for line in difference_lines(imported.differences):
            self.stdout.write(line)
        self.stdout.write(_summary(imported, dry_run=options["dry_run"]))


def _content(name: str) -> bytes:
    # One byte beyond the limit reveals a file that is too large.
    try:
        if name == "-":
            return sys.stdin.buffer.read(MAX_BYTES + 1)
        with Path(name).open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise CommandError(f"{name} cannot be read: {error.strerror}.") from error


def _summary(imported: Imported, *, dry_run: bool) -> str:
    counted = ", ".join(f"{number} {name}" for name, number in imported.counted().items())
    if not imported.differences:
        return f"No changes: the catalogue already matches this file ({counted})."
    if dry_run:
        return f"Dry run, nothing was changed: {counted}."
    return f"Imported as revision {imported.revision}: {counted}."
