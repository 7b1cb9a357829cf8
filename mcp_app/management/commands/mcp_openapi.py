"""``manage.py mcp_openapi``: import operations of an OpenAPI document as tools, or print the survey."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from django.core.exceptions import PermissionDenied, ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from mcp_app.catalogue.documents import choosing, importing, storing, updating
from mcp_app.catalogue.documents.fetching import fetched
from mcp_app.catalogue.documents.packing import unpacked_survey
from mcp_app.catalogue.sources.http.openapi.convert import Converter
from mcp_app.catalogue.sources.http.openapi.reading import MAX_BYTES, DocumentError, read
from mcp_app.catalogue.sources.http.openapi.survey import SurveyedOperation, survey
from mcp_app.interface.text import counted, marked
from mcp_app.management.actors import actor_named
from mcp_app.models import ApiDocument

NOTHING = "Nothing was imported."


class Command(BaseCommand):
    """Import the chosen operations, as drafts unless ``--publish`` is given."""

    help = "Import operations of an OpenAPI 3 or Swagger 2.0 document as tools."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("document", metavar="FILE_OR_URL", help="JSON or YAML; - reads standard input")
        parser.add_argument("--prefix", default="", help="put in front of the tools' names")
        parser.add_argument("--name", default="", help="of the document; default: the prefix or its title")
        parser.add_argument(
            "--origin", default="", metavar="URL", help="the API's address; default: its first server"
        )
        parser.add_argument(
            "--operation", "--include", dest="operations", action="append", default=[], metavar="PATTERN",
            help='such as "GET /orders/{id}" or "GET /orders*"; may be repeated',
        )  # fmt: skip
        parser.add_argument("--tag", dest="tags", action="append", default=[], help="may be repeated")
        parser.add_argument("--all", action="store_true", help="all operations that are not deprecated")
        parser.add_argument(
            "--credential", default="", metavar="NAME", help="a stored credential for all tools"
        )
        parser.add_argument("--publish", action="store_true", help="offer the tools to clients at once")
        parser.add_argument(
            "--survey", "--dry-run", dest="dry_run", action="store_true", help="print the operations only"
        )
        parser.add_argument(
            "--actor", metavar="USERNAME", help="the user recorded in history and audit trail"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            data, url = _content(options["document"])
            if options["dry_run"]:
                self._survey(read(data, url), options)
                return
            with transaction.atomic():
                self._import(data, url, options)
        except DocumentError as error:
            raise CommandError(f"{NOTHING} {error}") from error
        except ValidationError as error:
            raise CommandError(f"{NOTHING} {' '.join(error.messages)}") from error
        except PermissionDenied as error:
            raise CommandError(f"{NOTHING} {error}") from error

    def _survey(self, document: Any, options: dict[str, Any]) -> None:
        found = survey(Converter(document, prefix=options["prefix"]))
        shown = choosing.chosen(found, **_choice(options)) if _has_choice(options) else found
        for each in shown:
            self.stdout.write(_line(each))
        tokens = sum(each.tokens for each in shown)
        refused = sum(bool(each.refused) for each in shown)
        number = counted(len(found), "operation")
        self.stdout.write(f"{len(shown)} of {number}, about {tokens} tokens, {refused} not usable.")

    def _import(self, data: bytes, url: str, options: dict[str, Any]) -> None:
        actor = actor_named(options["actor"])
        if not _has_choice(options):
            raise CommandError("Choose operations by --operation, --tag or --all; --survey lists them.")
        name = options["name"] or options["prefix"].lower()
        row = ApiDocument.objects.filter(name=name).first() if name else None
        if row is None:
            row = storing.receive(data=data, actor=actor, url=url, name=name, prefix=options["prefix"])
        else:
            self._update(storing.receive_newer(row=row, data=data, actor=actor), actor)
        self._choose_server(row, options, actor)
        keys = [each.key for each in choosing.chosen(unpacked_survey(row.survey), **_choice(options))]
        if not keys:
            raise CommandError("No operation fits. --survey lists all.")
        done = importing.import_operations(row=row, keys=keys, actor=actor, publish=options["publish"])
        for key, reason in done.skipped.items():
            self.stdout.write(marked(f"skipped  {key}: {reason}"))
        if options["publish"]:
            self.stdout.write(
                f"Published {counted(len(done.published), 'tool')} of {row.name} as revision {done.revision}."
            )
        else:
            number = counted(len(done.drafts), "draft")
            self.stdout.write(f"Saved {number} of {row.name}. Drafts are published in the admin.")

    def _choose_server(self, row: ApiDocument, options: dict[str, Any], actor: Any) -> None:
        document = storing.document_of(row)
        values: dict[str, Any] = {}
        if options["origin"]:
            values["server"] = options["origin"]
        if options["credential"]:
            schemes = storing.converter_of(row, document).schemes
            values["credentials"] = dict.fromkeys(schemes, options["credential"])
        if values:
            storing.save_choices(row=row, actor=actor, **values)

    def _update(self, row: ApiDocument, actor: Any) -> None:
        plan = updating.planned(row)
        done = updating.update_tools(row=row, accepted=[each.key for each in plan.changes], actor=actor)
        row.refresh_from_db()
        if plan.changes:
            self.stdout.write(f"Updated {row.name}: {counted(len(done.drafts), 'draft')} saved.")
        for key, reason in done.skipped.items():
            self.stdout.write(marked(f"skipped  {key}: {reason}"))


def _content(name: str) -> tuple[bytes, str]:
    if name.startswith(("https://", "http://")):
        return fetched(name)
    try:
        if name == "-":
            return sys.stdin.buffer.read(MAX_BYTES + 1), ""
        with Path(name).open("rb") as file:
            return file.read(MAX_BYTES + 1), ""
    except OSError as error:
        raise CommandError(f"{name} cannot be read: {error.strerror}.") from error


def _has_choice(options: dict[str, Any]) -> bool:
    return bool(options["operations"] or options["tags"] or options["all"])


def _choice(options: dict[str, Any]) -> dict[str, Any]:
    return {"patterns": options["operations"], "tags": options["tags"], "every": options["all"]}


def _line(each: SurveyedOperation) -> str:
    state = f"not usable: {each.refused}" if each.refused else f"{each.tokens} tokens"
    return marked(f"{each.key}  {each.name}  {state}")
