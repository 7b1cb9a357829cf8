"""Incremental builds of a snapshot's entries: only changed rows are built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

import orjson
from django.db import connection
from django.db.models import QuerySet

from mcp_app.catalogue.snapshots.deferred import DeferredRows
from mcp_app.catalogue.snapshots.entries import Built, BuiltEntries, Entry
from mcp_app.catalogue.sources.lookup import related
from mcp_app.models import Tool

E = TypeVar("E", bound=Entry)
_AUDIT: Final = {"created_at", "updated_at", "updated_by", "reviewed_hash"}
# ``definition_hash`` covers these columns of copied rows. Rows that administrators made have no such hash.
_MIRRORED: Final = {"definition", "input_schema", "output_schema"}
# If more rows changed, all rows of the kind are read instead of these rows by id.
_MOST_NAMED: Final = 500


class Builder:
    """A builder of one snapshot's entries that reuses entries of the earlier snapshot ``before``.

    ``made_from`` holds everything beside the rows that entries depend on: settings and code. If it differs
    from the earlier snapshot, no entry is reused.
    """

    def __init__(self, before: BuiltEntries, made_from: Any) -> None:
        self._before = before.by_kind if before.made_from == made_from else {}
        self._by_kind: dict[type[Any], dict[int, Built]] = {}
        self.built = BuiltEntries(made_from, self._by_kind)

    def entries(self, rows: QuerySet[Any], build: Callable[[Any], E | None]) -> list[E]:
        """Return the entries of enabled rows in order. ``build`` returns None for a row without an entry."""
        before = self._before.get(rows.model, {})
        names, hashes, values = _stored(rows.model, before)
        found = {pk: before[pk] for pk, value in hashes.items() if pk in before and before[pk].hash == value}
        if rows.model is Tool:
            later = DeferredRows(names, build)
            entries = ((pk, later.entry(each)) for pk, each in values.items())
            found |= {pk: Built(hashes[pk], entry) for pk, entry in entries if entry is not None}
        for row in _changed(rows, [pk for pk in hashes if pk not in found]):
            entry = build(row) if row.pk in hashes and row.pk not in found else None
            if entry is not None:
                found[row.pk] = Built(hashes[row.pk], entry)
        self._by_kind[rows.model] = found
        return [found[pk].entry for pk in hashes if pk in found]


def _changed(rows: QuerySet[Any], keys: list[int]) -> QuerySet[Any]:
    if len(keys) > _MOST_NAMED:
        return rows
    return rows.filter(pk__in=keys) if keys else rows.none()


class _Stored(NamedTuple):
    """The enabled rows of a kind by id, in the order of lists: hashes, and raw values of changed rows."""

    names: list[str]
    hashes: dict[int, int]
    values: dict[int, tuple[Any, ...]]


def _stored(kind: type[Any], before: Mapping[int, Built]) -> _Stored:
    """Return the hash of each enabled row, and the raw values of rows with another hash ``before``.

    The hash of a row includes the related rows that its source needs. It is of raw database values, because
    creating model instances would take most of the load time. It is valid within this process.
    """
    fields = [field for field in kind._meta.concrete_fields if field.name not in _AUDIT | _MIRRORED]
    names = [field.attname for field in fields]
    key, behind = names.index("id"), [names.index(f"{relation}_id") for relation in related(kind)]
    mirrored = [field for field in kind._meta.concrete_fields if field.name in _MIRRORED]
    # Mirrored columns are null in copied rows.
    own = [f"CASE WHEN definition_hash = '' THEN {_quoted(field)} END" for field in mirrored]
    columns = ", ".join([*(_quoted(field) for field in fields), *own])
    hashes: dict[int, int] = {}
    values: dict[int, tuple[Any, ...]] = {}
    related_to: dict[int, list[int]] = {}
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {columns} FROM {kind._meta.db_table} WHERE enabled ORDER BY position, id"  # noqa: S608
        )
        for row in cursor:
            pk = row[key]
            # Tuples of -1 and of -2 have the same hash, so the row is written as text.
            found = hashes[pk] = hash(orjson.dumps(row))
            if pk not in before or before[pk].hash != found:
                values[pk] = row
            if others := [row[index] for index in behind if row[index] is not None]:
                related_to[pk] = others
    own_hashes = dict(hashes)
    for pk, others in related_to.items():
        # A related tool that is disabled has no hash.
        hashes[pk] = hash((own_hashes[pk], *(own_hashes.get(each) for each in others)))
    return _Stored([*names, *(field.attname for field in mirrored)], hashes, values)


def _quoted(field: Any) -> str:
    return str(connection.ops.quote_name(field.column))
