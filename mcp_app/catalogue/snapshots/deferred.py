"""Entries of tools that are built when they are first needed, from the raw values of their rows.

Other servers may list thousands of tools, of which a process calls few. Building all of their entries would
delay the start of each process.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import fields
from operator import itemgetter
from typing import Any, Final

from django.db.models import JSONField

from mcp_app.catalogue.definitions.definition import ToolFunction
from mcp_app.catalogue.definitions.tool_limits import APPROVAL_MINUTES, POSITIVE, SWITCHES
from mcp_app.catalogue.schemas import validation
from mcp_app.catalogue.snapshots.entries import ToolEntry
from mcp_app.catalogue.sources.lookup import SOURCES
from mcp_app.models import Tool

# Snapshots read limits of every tool. A tool with one of these limits is built at once.
_NO_LIMITS: Final = {**dict.fromkeys(POSITIVE), **dict.fromkeys(SWITCHES, False)}
_UNLIMITED: Final = {**_NO_LIMITS, "approval_minutes": APPROVAL_MINUTES, "secret_names": frozenset[str]()}
_MEMBERS: Final = tuple(_UNLIMITED.items())
# Copied rows have their definition elsewhere, and ``meta`` may have tags.
_USUAL: Final = {**_NO_LIMITS, "definition_hash": "", "meta": "{}"}
_USUAL_VALUES: Final = tuple(_USUAL.values())
_READ: Final = ("id", "source", "name", "permission", "position", "tags", "request", "input_schema")
# Texts in a schema that may mark an argument as secret (``entry_builder``).
_SECRET: Final = ("writeOnly", "password")
_NO_FUNCTION: Final = ToolFunction(call=dict, is_async=False, context_name=None, bind=dict)
_FIELDS: Final = tuple(each.name for each in fields(ToolEntry))
_JSON: Final = frozenset(each.attname for each in Tool._meta.concrete_fields if isinstance(each, JSONField))


class DeferredToolEntry(ToolEntry):
    """The entry of a tool that is built when a member without a value is read.

    The ``wire`` of a tool that cannot be built is empty. Views and lists omit such a tool.
    """

    __slots__ = ("_rows", "_values")

    _rows: DeferredRows
    _values: tuple[Any, ...] | None

    @property
    def is_built(self) -> bool:
        """True if all members have a value."""
        return self._values is None

    def __getattr__(self, name: str) -> Any:
        """Build the entry, and return the member. Python calls this for members without a value only."""
        if name not in _FIELDS:
            raise AttributeError(name, name=name, obj=self)
        if (values := self._values) is not None:
            built = self._rows.built(values) or _unusable(self)
            for each in _FIELDS:
                object.__setattr__(self, each, getattr(built, each))
            # A thread that builds the entry at the same time sets equal members.
            object.__setattr__(self, "_values", None)
        return object.__getattribute__(self, name)


class DeferredRows:
    """Rows of tools, some of whose entries can be deferred.

    ``names`` are the columns of their raw values. ``build`` returns the entry of a row, or None.
    """

    def __init__(self, names: Sequence[str], build: Callable[[Any], Any]) -> None:
        self._names, self._build = names, build
        self._sources = {each.stored: each for each in SOURCES if Tool in each.kinds}
        self._usual = itemgetter(*map(names.index, _USUAL))
        self._read = itemgetter(*map(names.index, _READ))

    def entry(self, values: tuple[Any, ...]) -> DeferredToolEntry | None:
        """Return the entry of a row, or None if the entry must be built at once."""
        pk, stored, name, permission, position, tags, request, schema = self._read(values)
        source = self._sources.get(stored)
        if source is None or self._usual(values) != _USUAL_VALUES or not source.can_wait(request or ""):
            return None
        if _SECRET[0] in schema or _SECRET[1] in schema:
            return None
        # Members are set one by one, because a process may create thousands of entries at its start.
        entry, put = DeferredToolEntry.__new__(DeferredToolEntry), object.__setattr__
        put(entry, "name", name)
        put(entry, "permission", permission)
        put(entry, "order", (source.rank, position, pk))
        put(entry, "tags", () if tags == "[]" else tuple(json.loads(tags)))
        put(entry, "source", stored)
        for member, value in _MEMBERS:
            put(entry, member, value)
        put(entry, "_rows", self)
        put(entry, "_values", values)
        return entry

    def built(self, values: tuple[Any, ...]) -> Any:
        """Build the entry of a row from its raw values."""
        columns = zip(self._names, values, strict=True)
        return self._build(Tool(**{name: _value(name, value) for name, value in columns}))


def _value(name: str, value: Any) -> Any:
    """Return the value of a column. Raw values of JSON columns are text."""
    return json.loads(value) if name in _JSON and value is not None else value


def _unusable(entry: ToolEntry) -> ToolEntry:
    return ToolEntry(
        name=entry.name,
        wire={},
        permission=entry.permission,
        order=entry.order,
        source=entry.source,
        function=_NO_FUNCTION,
        input=validation.compile_schema({}),
        output=None,
        timeout=0.0,
    )
