"""Synchronous loading of the whole catalogue from the database, for threads and commands."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.conf import settings as django_settings
from django.db import connection

from mcp_app import conf
from mcp_app.catalogue.definitions.definition import DefinitionError
from mcp_app.catalogue.schemas.validation import SchemaError
from mcp_app.catalogue.snapshots import entry_builder, toolsets
from mcp_app.catalogue.snapshots.entries import NOTHING_BUILT, BuiltEntries
from mcp_app.catalogue.snapshots.incremental import Builder
from mcp_app.catalogue.snapshots.snapshot import KINDS, Catalogue
from mcp_app.catalogue.sources.code import CODE
from mcp_app.catalogue.sources.lookup import provided, rows_of, source_of
from mcp_app.models import CatalogueRevision, Prompt, Resource, ResourceTemplate, Tool, Toolset
from mcp_app.models.catalogue import ENTRY_KINDS, Row

log = logging.getLogger("mcp.catalogue")
_ATTEMPTS = 5
_REVISION = ", ".join(field.attname for field in CatalogueRevision._meta.concrete_fields)


def revision() -> CatalogueRevision:
    """Return the stored revision row, all zero before the first change.

    The query is raw SQL, because it runs often and a Django query takes many times as long.
    """
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {_REVISION} FROM {CatalogueRevision._meta.db_table} WHERE id = 1")  # noqa: S608
        row = cursor.fetchone()
    return CatalogueRevision(*row) if row else CatalogueRevision(pk=1)


def load(before: BuiltEntries = NOTHING_BUILT, at: CatalogueRevision | None = None) -> Catalogue:
    """Return the stored catalogue, with the entries of unchanged rows reused from ``before``.

    ``at`` is the stored revision if the caller has just read it. Rows change in the same transaction as the
    revision, so rows read between two equal revisions are consistent. If the revision changes during every
    attempt, the catalogue has the revision read before its rows, and the next load finds the newer revision.
    """
    at = at or revision()
    catalogue = _read(at, before)
    for _ in range(_ATTEMPTS):
        after = revision()
        if after.number == at.number:
            return catalogue
        at = after
        catalogue = _read(at, before)
    # Digests and entries may be from different states of a row.
    catalogue.built = NOTHING_BUILT
    return catalogue


def from_code() -> Catalogue:
    """Return the catalogue as code defines it, without changes made in the admin. Uses no database."""
    entries = {kind: list(_built(_unsaved(kind))) for kind in ENTRY_KINDS}
    return _catalogue(CatalogueRevision(pk=1), entries, NOTHING_BUILT)


def _unsaved(kind: type[Any]) -> Iterator[Row]:
    for number, key in enumerate(CODE.provided(kind), start=1):
        yield CODE.new(kind, **{kind.KEY: key}, pk=number, position=number)


def _built(rows: Iterable[Row]) -> Iterator[Any]:
    return (entry for row in rows if (entry := _entry(row)) is not None)


def _read(at: CatalogueRevision, before: BuiltEntries) -> Catalogue:
    builder = Builder(before, (conf.get(), *provided()))
    entries = {kind: builder.entries(rows_of(kind).filter(enabled=True), _entry) for kind in ENTRY_KINDS}
    catalogue = _catalogue(at, entries, builder.built)
    rows = _toolset_rows(at, before)
    catalogue.toolsets = toolsets.served(catalogue, rows, before.toolsets, **_paging())
    catalogue.servers = {path: each.server for path, each in catalogue.toolsets.items()}
    catalogue.built = builder.built._replace(
        toolsets=catalogue.toolsets, toolset_rows=rows, revision=at.number
    )
    return catalogue


def _toolset_rows(at: CatalogueRevision, before: BuiltEntries) -> Sequence[Toolset]:
    """Return the enabled toolsets. They are read again unless the only change since then was of entries.

    A change of a toolset raises the number alone, and a change of listed entries also raises a list.
    """
    if at.number == before.revision + 1 and at.number in (at.tools, at.prompts, at.resources):
        return before.toolset_rows
    return list(Toolset.objects.filter(enabled=True))


def _catalogue(
    at: CatalogueRevision, entries: Mapping[type[Row], list[Any]], built: BuiltEntries
) -> Catalogue:
    return Catalogue(
        revision=at.number,
        revisions={name: getattr(at, name) for name in KINDS},
        tools=[replace(each, revision=at.number) if each.needs_approval else each for each in entries[Tool]],
        prompts=entries[Prompt],
        resources=entries[Resource],
        templates=entries[ResourceTemplate],
        built=built,
        **_paging(),
    )


def _paging() -> dict[str, Any]:
    return {"page_size": conf.get().page_size, "secret": django_settings.SECRET_KEY.encode()}


def _entry(row: Row) -> Any:
    """Return the entry of a row. If the row is unusable, log a warning and return None.

    One unusable row must not fail the whole catalogue.
    """
    try:
        definition = source_of(row).offered(row)
        return None if definition is None else entry_builder.BUILDERS[type(row)](row, definition.read())
    except (SchemaError, DefinitionError) as error:
        log.warning("%s %r is not offered: %s", row.KIND.capitalize(), str(row), error)
        return None
