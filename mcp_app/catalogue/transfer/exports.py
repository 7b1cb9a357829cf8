"""Export of the catalogue, as administrators edit it, into one document."""

from __future__ import annotations

from typing import Any, Final

from django.db import transaction

from mcp_app.catalogue.changes import revisions
from mcp_app.catalogue.sources.content import files
from mcp_app.catalogue.sources.lookup import rows_of, source_of, travelling_rows
from mcp_app.catalogue.transfer import notation as notations
from mcp_app.catalogue.transfer.field_defaults import Untouched
from mcp_app.catalogue.transfer.fields import SECTIONS, same, values_of, written
from mcp_app.catalogue.transfer.problems import Problem, TransferRefused
from mcp_app.catalogue.transfer.sections import SECTIONS as FURTHER

FORMAT: Final = "django-mcp-catalogue"
VERSION: Final = 1


def export_catalogue(notation: str = "json") -> str:
    """Return a catalogue file. Raises TransferRefused if an upload cannot be read."""
    return notations.write(document(), notation)


def document() -> dict[str, Any]:
    """Return complete entries made in the admin and the changed fields of code entries, sorted by key.

    An entry marked missing is omitted, because no installation could import it. Raises TransferRefused if an
    upload cannot be read.
    """
    problems: list[Problem] = []
    result: dict[str, Any] = {"format": FORMAT, "version": VERSION}
    # The lock ensures that all kinds are read at the same revision.
    with transaction.atomic():
        revisions.lock()
        untouched = Untouched()
        for section, kind in SECTIONS.items():
            rows = rows_of(kind).filter(travelling_rows(kind), missing=False)
            entries = [_entry(row, untouched, problems) for row in sorted(rows, key=revisions.key_of)]
            result[section] = [entry for entry in entries if entry is not None]
        for further in FURTHER:
            result[further.name] = [
                {further.key: key} | written(values) for key, values in sorted(further.rows().items())
            ]
    if problems:
        raise TransferRefused(problems)
    return result


def _entry(row: Any, untouched: Untouched, problems: list[Problem]) -> dict[str, Any] | None:
    key = revisions.key_of(row)
    try:
        values = values_of(row)
    except files.FileRefusedError as error:
        text = f"{error} Upload it again, or delete the entry."
        problems.append(Problem(f"{revisions.kind_of(row)} {key}", "file", text))
        return None
    if source_of(row).follows:
        before = untouched.values_of(row)
        values = {name: value for name, value in values.items() if not same(value, before[name])}
        if not values:
            return None
    head = {row.KEY: key, "source": str(row.source)}
    return head | {name: written(value) for name, value in values.items()}
