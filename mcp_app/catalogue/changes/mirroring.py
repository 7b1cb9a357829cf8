"""Mirroring of definitions into database rows, which administrators can switch and limit.

Definitions come from code and from other sources.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from django.core.exceptions import ValidationError
from django.db import transaction

from mcp_app.catalogue.changes import revisions, row_checks
from mcp_app.catalogue.definitions.definition import (
    Definition,
    DefinitionError,
    ResourceDefinition,
    ToolDefinition,
)
from mcp_app.catalogue.definitions.tool_limits import SWITCHES
from mcp_app.catalogue.sources.base import Source
from mcp_app.catalogue.sources.lookup import SOURCES
from mcp_app.models.catalogue import ENTRY_KINDS, Row

_STEP = 10
_Registered = list[tuple[Source, type[Row], dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Mirrored:
    """The outcome of one run: the new revision (0 without changes) and the number of changed rows.

    ``refused`` are the keys of definitions whose name a row from another source already uses. ``unreadable``
    has an error for each definition that cannot be read or stored; the row of that definition is unchanged.
    """

    revision: int = 0
    changed: int = 0
    refused: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()


def mirror() -> Mirrored:
    """Update rows to the current definitions. Repeated and concurrent runs are safe.

    Texts, switches and limits set by administrators stay. A row whose definition no longer exists is marked
    missing; a later run restores it if the definition returns.
    """
    # Definitions are read before the transaction, because reading may run queries of the project that fail.
    registered, unreadable = _registered()
    return _mirrored(registered, unreadable, lambda row: None, None, "")


def mirror_checked(
    source: Source, kind: type[Row], definitions: Mapping[str, Definition], actor: Any, why: str
) -> Mirrored:
    """Update the rows of one source and kind like ``mirror``, but check each row before it is saved."""
    errors: list[str] = []
    read = {key: _read(each, errors) for key, each in definitions.items()}
    return _mirrored([(source, kind, read)], errors, row_checks.check, actor, why)


def _mirrored(
    registered: _Registered, unreadable: list[str], check: Callable[[Row], None], actor: Any, why: str
) -> Mirrored:
    with transaction.atomic():
        # A concurrent process waits here and then finds no differences.
        revisions.lock()
        changes: list[tuple[Any, str, dict[str, Any] | None]] = []
        refused: list[str] = []
        for source, kind, definitions in registered:
            rows = {revisions.key_of(row): row for row in kind._default_manager.all()}
            for index, (key, definition) in enumerate(definitions.items()):
                row = rows.get(key)
                if row is not None and not source.owns(row):
                    refused.append(key)
                elif definition is not None:
                    try:
                        position = (index + 1) * _STEP
                        changes += _written(source, kind, row, definition, position, check)
                    except ValidationError as error:
                        unreadable.append(f"{key}: {' '.join(error.messages)}")
            changes += [(row, "missing", before) for row, before in _removed_rows(source, rows, definitions)]
        revision = _record(changes, actor, why)
    return Mirrored(revision, len(changes), tuple(refused), tuple(unreadable))


def not_in_database() -> list[str]:
    """Return keys of definitions that have no row, or a row marked missing. Clients do not see them."""
    absent: list[str] = []
    for _, kind, definitions in _registered()[0]:
        rows = kind._default_manager.filter(missing=False)
        readable = {key for key, definition in definitions.items() if definition is not None}
        absent += sorted(readable - set(rows.values_list(kind.KEY, flat=True)))
    return absent


def _registered() -> tuple[_Registered, list[str]]:
    """Return the final definitions by source, kind and key, and the errors.

    A definition that cannot be read is None.
    """
    errors: list[str] = []
    homes = (
        (source, kind, home)
        for kind in ENTRY_KINDS
        for source in SOURCES
        if kind in source.kinds and (home := source.provided(kind)) is not None
    )
    found = [
        (source, kind, {key: _read(each, errors) for key, each in home.items()})
        for source, kind, home in homes
    ]
    return found, errors


def _read(definition: Definition, errors: list[str]) -> Definition | None:
    try:
        return definition.read()
    except DefinitionError as error:
        errors.append(str(error))
        return None


def _written(
    source: Source,
    kind: type[Row],
    row: Any,
    definition: Definition,
    position: int,
    check: Callable[[Row], None],
) -> Iterator[tuple[Any, str, dict[str, Any] | None]]:
    """Create the row if it is None, else update it. If it changed, yield it with its former state."""
    values = {**_values(source, definition), "missing": False}
    if row is not None and all(getattr(row, name) == value for name, value in values.items()):
        return
    before = None if row is None else revisions.state_of(row)
    row = row or source.new(kind, position=position, permission=definition.permission)
    for name, value in values.items():
        setattr(row, name, value)
    check(row)
    row.save()
    yield row, "mirrored", before


def _removed_rows(
    source: Source, rows: dict[str, Any], definitions: dict[str, Any]
) -> Iterator[tuple[Any, dict[str, Any]]]:
    for key, row in rows.items():
        if source.owns(row) and key not in definitions and not row.missing:
            before = revisions.state_of(row)
            row.missing = True
            row.save(update_fields=["missing", "updated_at"])
            yield row, before


def _record(changes: list[tuple[Any, str, dict[str, Any] | None]], actor: Any, why: str) -> int:
    if not changes:
        return 0
    revision = revisions.bump({revisions.kind_of(row) for row, _, _ in changes})
    for row, action, before in changes:
        after = revisions.state_of(row)
        revisions.record(
            revision=revision, row=row, action=action, before=before, after=after, actor=actor, why=why
        )
    detail = {"revision": revision, "changed": len(changes), **({"why": why} if why else {})}
    revisions.audit(actor=actor, action="catalogue.mirrored", detail=detail)
    return revision


def _values(source: Source, definition: Definition) -> dict[str, Any]:
    """Return the read-only columns of a mirrored row."""
    # The JSON round trip gives the values that the database returns, so later comparisons are exact.
    wire = orjson.loads(orjson.dumps(definition.wire))
    columns: dict[str, Any] = orjson.loads(orjson.dumps(source.columns(definition)))
    # The hash is part of a tool's identity. It includes the columns, so that they are part of it as well.
    hashed = [wire, columns] if columns else wire
    digest = hashlib.sha256(orjson.dumps(hashed, option=orjson.OPT_SORT_KEYS)).hexdigest()
    values: dict[str, Any] = {
        "definition": wire,
        "definition_hash": digest,
        "code_path": definition.code_path[:300],
        "name": wire["name"],
    }
    if isinstance(definition, ToolDefinition):
        values["input_schema"] = wire["inputSchema"]
        values["output_schema"] = wire.get("outputSchema")
        values["annotations"] = wire.get("annotations", {})
        # Administrators may switch these limits on for any tool, but not off if the code requires them.
        values |= {name: True for name in SWITCHES if getattr(definition, name)}
    elif isinstance(definition, ResourceDefinition):
        values["uri_template" if definition.is_template else "uri"] = definition.uri
        values["mime_type"] = wire.get("mimeType", "")
        values["annotations"] = wire.get("annotations", {})
    else:
        values["arguments"] = wire.get("arguments", [])
    return values | columns
