"""``manage.py mcp_export``: write the catalogue to a file or to standard output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from mcp_app.catalogue.transfer import NOTATIONS, TransferRefused, export_catalogue, notation_of
from mcp_app.catalogue.transfer.report import problem_lines


class Command(BaseCommand):
    """Write the catalogue, as administrators edit it, to a file."""

    help = "Export tools, prompts, resources and templates with the changes of administrators."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--format", choices=NOTATIONS, help="default: the suffix of --output, else json")
        parser.add_argument("--output", metavar="FILE", help="default: standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        output = options["output"]
        try:
            text = export_catalogue(options["format"] or notation_of(output or ""))
            if output is None:
                self.stdout.write(text, ending="")
            else:
                Path(output).write_text(text, encoding="utf-8", newline="\n")
        except TransferRefused as refused:
            raise CommandError("\n".join(problem_lines(refused.problems))) from refused
        except OSError as error:
            raise CommandError(f"{output} cannot be written: {error.strerror}.") from error
