"""The interface of a source of entries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from django.db.models import Q

from mcp_app.catalogue.definitions.definition import Definition
from mcp_app.catalogue.definitions.tool_limits import COLUMNS
from mcp_app.catalogue.sources.checking import Errors
from mcp_app.catalogue.sources.precedence import stated, words_of
from mcp_app.interface.text import marked
from mcp_app.models import Tool
from mcp_app.models.catalogue import ENTRY_KINDS, Row

# What an administrator may set of an entry of any source, in the order it is shown in, and of any tool.
DRESS: Final = ("title", "description", "enabled", "permission", "position", "icons", "meta")
LIMITS: Final = tuple(COLUMNS.values())
# Own fields with a place of their own in an identity.
_IDENTIFIED: Final = ("name", "preset_of", "fixed_arguments")


class Source:
    """A source of entries: it says what they are, and what administrators may do with them.

    The base is also what rows are that name a source unknown here. A row names its source in its column
    ``source``: one of the same ``stored`` name and the row's kind. Nothing here uses the network.
    """

    stored: ClassVar[str] = ""
    kinds: ClassVar[tuple[type[Row], ...]] = ENTRY_KINDS
    # The badges of an entry, and their tone.
    label: ClassVar[str] = "unknown"
    variety: ClassVar[str] = ""
    tone: ClassVar[str] = "plain"
    # The name of what rows are copies of; empty where administrators make the rows themselves.
    origin: ClassVar[str] = "its source"
    # Fields that an administrator makes an entry from, in the order of forms, the key first.
    own_fields: ClassVar[Mapping[type[Row], tuple[str, ...]]] = {}
    # Relations to rows of the same kind that are always needed with an entry.
    related: ClassVar[tuple[str, ...]] = ()
    # Entries stand in catalogue files.
    travels: ClassVar[bool] = False
    # Why none of its entries is offered; empty if they are.
    unserved: ClassVar[str] = "this installation does not know its source"
    # Lists have the entries of lower ranks first.
    rank: ClassVar[int] = 1

    @property
    def follows(self) -> bool:
        """Rows are copies of definitions that are kept elsewhere."""
        return bool(self.origin)

    def new(self, kind: type[Any], **values: Any) -> Any:
        """Return an unsaved row of this source."""
        return kind(source=self.stored, **values)

    def owns(self, row: Row) -> bool:
        """Return True for a row of this source."""
        return isinstance(row, self.kinds) and row.source == self.stored

    def rows(self) -> Q:
        """Return the condition for rows of this source, among those of its kinds."""
        return Q(source=self.stored)

    def editable(self, kind: type[Any]) -> frozenset[str]:
        """Return the fields that an administrator may set of an entry."""
        if not self.follows and kind not in self.own_fields:
            return frozenset()
        limits = LIMITS if kind is Tool else ()
        return frozenset((*DRESS, *limits, *self.own_fields.get(kind, ())))

    def provided(self, kind: type[Any]) -> Mapping[str, Definition] | None:
        """Return the definitions that rows are made from, by key; None if rows are made in another way."""
        return None

    def definition(self, row: Row) -> Definition | None:
        """Return the definition of a row, None if it cannot be offered; may raise DefinitionError."""
        return self._provided(row)

    def in_force(self, row: Row) -> dict[str, Any]:
        """Return the values in force where an administrator has set none, by column.

        The words are those of the stored definition, so that an entry whose code is gone still has them.
        """
        definition = self._provided(row)
        return words_of(row.definition) if definition is None else stated(definition, row.definition)

    def permission_of(self, row: Row) -> str:
        """Return the permission that callers need, empty if none."""
        definition = None if row.permission else self._provided(row)
        return str(row.permission if definition is None else definition.permission)

    def problem(self, row: Row) -> str:
        """Return why a row is not offered to anybody, empty if it is."""
        base = self.base_of(row)
        if row.missing or (base is not None and base.missing):
            return "the code that defined it is not installed"
        if not row.enabled:
            return "it is disabled"
        if base is not None and not base.enabled:
            return f"the tool that it is a preset of, {marked(base.name)}, is disabled"
        return self.unserved

    def check(self, row: Row, errors: Errors) -> None:
        """Add what is wrong with the own fields of a row to ``errors``."""

    def unavailable(self, kind: type[Any], key: str, row: Row | None) -> str:
        """Return why a catalogue file cannot have this entry here, empty if it can."""
        if not self.follows or (row is not None and not row.missing):
            return ""
        if key in (self.provided(kind) or {}):
            return "Its code is installed but not in the catalogue yet: run `manage.py mcp_prepare` first."
        return "Unknown to this installation: install the app that defines it, or take it out of the file."

    def base_of(self, row: Row) -> Tool | None:
        """Return the row whose definition an entry is made from, None if it has its own."""
        return None

    def arguments_of(self, row: Tool) -> Any:
        """Return the input schema of a stored tool."""
        return row.input_schema

    def identity(self, row: Tool) -> list[Any]:
        """Return what decides which work a call of a tool does, as JSON values: approval is bound to it."""
        base, own = self.base_of(row), self.own_fields.get(type(row), ())
        more = [row.serializable_value(name) for name in own if name not in _IDENTIFIED]
        return [_code(row), None if base is None else _code(base), row.fixed_arguments, *more]

    def _provided(self, row: Row) -> Definition | None:
        return (self.provided(type(row)) or {}).get(getattr(row, row.KEY))


def _code(row: Tool) -> list[Any]:
    return [row.pk, row.name, row.source, row.code_path, row.definition_hash]
