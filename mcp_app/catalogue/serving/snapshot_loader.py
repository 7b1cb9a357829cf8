"""Reads a whole catalogue from the database; synchronous, for threads and commands."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from django.conf import settings as django_settings
from django.db import connection

from mcp_app import conf
from mcp_app.catalogue.definitions.definition import Definition, DefinitionError, ToolDefinition
from mcp_app.catalogue.definitions.registry import registry
from mcp_app.catalogue.schemas.validation import SchemaError
from mcp_app.catalogue.serving import entry_builder
from mcp_app.catalogue.serving.entries import (
    NOTHING_BUILT,
    BuiltEntries,
    PromptEntry,
    ResourceEntry,
    ToolEntry,
)
from mcp_app.catalogue.serving.incremental import Builder
from mcp_app.catalogue.serving.snapshot import KINDS, Catalogue
from mcp_app.models import CatalogueRevision, Prompt, Resource, ResourceTemplate, Source, Tool

log = logging.getLogger("mcp.catalogue")
D = TypeVar("D", bound=Definition)
E = TypeVar("E", PromptEntry, ResourceEntry)
_ATTEMPTS = 5


def revision() -> CatalogueRevision:
    """The stored revision row, all zero before the first change."""
    return CatalogueRevision.objects.filter(pk=1).first() or CatalogueRevision(pk=1)


def revision_number() -> int:
    """The number of that row; written in SQL because it is asked for at every call and Django's own words for
    it take fifteen times as long as the answer.
    """
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT number FROM {CatalogueRevision._meta.db_table} WHERE id = 1")  # noqa: S608
        row = cursor.fetchone()
    return row[0] if row else 0


def load(before: BuiltEntries = NOTHING_BUILT) -> Catalogue:
    """Return the catalogue as stored now; entries whose rows are unchanged are taken from ``before``.

    Rows change in the same transaction as the revision, so rows read between two equal revisions belong
    together. If writers never pause, the older revision is kept: the next look will find the newer one.
    """
    at = revision()
    catalogue = _read(at, before)
    for _ in range(_ATTEMPTS):
        after = revision()
        if after.number == at.number:
            return catalogue
        at = after
        catalogue = _read(at, before)
    # A digest and its entry may be of two states of a row.
    catalogue.built = NOTHING_BUILT
    return catalogue


def from_code() -> Catalogue:
    """What the code defines, as if no administrator had ever touched it; no database."""
    return Catalogue(
        revision=0,
        revisions=dict.fromkeys(KINDS, 0),
        tools=[
            entry
            for row, item in _unsaved(Tool, registry.tools)
            if (entry := _tool(row, None, item)) is not None
        ],
        prompts=[entry_builder.code_prompt(row, item) for row, item in _unsaved(Prompt, registry.prompts)],
        resources=[
            entry_builder.code_resource(row, item) for row, item in _unsaved(Resource, registry.resources)
        ],
        templates=[
            entry_builder.code_resource(row, item)
            for row, item in _unsaved(ResourceTemplate, registry.templates)
        ],
        page_size=conf.get().page_size,
        secret=django_settings.SECRET_KEY.encode(),
    )


def _unsaved(kind: type[Any], definitions: Mapping[str, D]) -> Iterator[tuple[Any, D]]:
    for number, definition in enumerate(definitions.values(), start=1):
        yield kind(pk=number, position=number, source=Source.CODE), definition


def _read(at: CatalogueRevision, before: BuiltEntries) -> Catalogue:
    builder = Builder(before, (conf.get(), *_code()))
    tools = builder.entries(Tool.objects.filter(enabled=True).select_related("preset_of"), _stored_tool)
    prompt = partial(_stored, "name", registry.prompts, entry_builder.code_prompt, entry_builder.admin_prompt)
    resource = partial(
        _stored, "uri", registry.resources, entry_builder.code_resource, entry_builder.admin_resource
    )
    template = partial(_stored, "uri_template", registry.templates, entry_builder.code_resource, None)
    return Catalogue(
        revision=at.number,
        revisions={"tools": at.tools, "prompts": at.prompts, "resources": at.resources},
        tools=[replace(each, revision=at.number) if each.needs_approval else each for each in tools],
        prompts=builder.entries(Prompt.objects.filter(enabled=True), prompt),
        resources=builder.entries(Resource.objects.filter(enabled=True), resource),
        templates=builder.entries(ResourceTemplate.objects.filter(enabled=True), template),
        page_size=conf.get().page_size,
        secret=django_settings.SECRET_KEY.encode(),
        built=builder.built,
    )


def _code() -> Iterator[list[Definition]]:
    homes: tuple[Mapping[str, Definition], ...] = (
        registry.tools, registry.prompts, registry.resources, registry.templates
    )  # fmt: skip
    return (list(home.values()) for home in homes)


def _stored_tool(row: Tool) -> ToolEntry | None:
    base = row.preset_of
    definition = registry.tools.get(base.name if base else row.name)
    if definition is None or (base is not None and not base.enabled):
        return None
    return _tool(row, base, definition)


def _tool(row: Tool, base: Tool | None, definition: ToolDefinition) -> ToolEntry | None:
    """Return the entry, or None if its schema cannot be used: one bad tool must not empty the catalogue."""
    try:
        final = definition.read()
        return entry_builder.preset_tool(row, base, final) if base else entry_builder.code_tool(row, final)
    except (SchemaError, DefinitionError) as error:
        log.warning("Tool %r is not offered: %s", row.name or definition.name, error)
        return None


def _stored(
    key: str,
    definitions: Mapping[str, D],
    of_code: Callable[[Any, D], E],
    of_admin: Callable[[Any], E] | None,
    row: Any,
) -> E | None:
    """Return the entry of a row that an administrator made, or whose code is still there."""
    definition = definitions.get(getattr(row, key))
    if row.source == Source.ADMIN and of_admin is not None:
        return of_admin(row)
    if row.source == Source.CODE and definition is not None:
        return of_code(row, definition)
    return None
