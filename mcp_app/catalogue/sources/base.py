"""The interface of a source of entries.

A new source is added to the list in ``sources/__init__.py``, and a new stored name to ``StoredSource`` in
``models/catalogue.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, NamedTuple

from django.db.models import Q

from mcp_app.catalogue.definitions.definition import Definition
from mcp_app.catalogue.definitions.tool_limits import COLUMNS, RESULT_BOUNDS
from mcp_app.catalogue.sources.checking import Errors
from mcp_app.catalogue.sources.precedence import stated, texts_of
from mcp_app.models import Tool
from mcp_app.models.catalogue import ENTRY_KINDS, Row

# Fields that administrators may set on entries of any source, in display order. LIMITS are for tools.
APPEARANCE: Final = ("title", "description", "enabled", "permission", "tags", "position", "icons", "meta")
LIMITS: Final = tuple(COLUMNS.values())
_NEVER_CUT: Final = "This has no effect: results of a tool with an output schema are never cut."
# Own fields that ``Source.identity`` includes in another form.
_IDENTIFIED: Final = ("name", "preset_of", "fixed_arguments")


class Adding(NamedTuple):
    """The admin's button "Add …" for a new entry of a source.

    ``noun`` names an entry, such as "preset". ``help`` is the button's tooltip. ``page`` is the URL name of a
    page that replaces the add form, such as an import page. ``offer`` replaces the noun where the kinds of
    new entries are offered.
    """

    noun: str
    help: str
    page: str = ""
    # Further permissions that ``page`` needs.
    permissions: tuple[str, ...] = ()
    offer: str = ""

    @property
    def offered(self) -> str:
        """The words for a new entry where the kinds of new entries are offered."""
        return self.offer or self.noun


# Help texts of the models have these words.
USUAL_OF_CODE: Final = "the value in its code"


class Source:
    """A source of entries: their definitions, and the fields that administrators may set.

    A row's column ``source`` contains the ``stored`` name of its source. Rows with an unknown source use
    this base class itself. No method uses the network.
    """

    stored: ClassVar[str] = ""
    kinds: ClassVar[tuple[type[Row], ...]] = ENTRY_KINDS
    # The text of an entry's badge, and its colour. ``variety`` is the text if it differs from the label.
    label: ClassVar[str] = "unknown"
    variety: ClassVar[str] = ""
    tone: ClassVar[str] = "plain"
    # The place that rows are copied from, as named in messages. Empty if administrators create the rows.
    origin: ClassVar[str] = "its source"
    # What a tool uses for a field that is empty, before the default of the server. "" if there is nothing.
    usual: ClassVar[str] = ""
    # The reason why a row marked missing is not offered, and why a deleted row cannot be restored.
    gone: ClassVar[str] = "its source no longer has it"
    returns: ClassVar[str] = "Its source no longer has it: it comes back when the source has it again."
    # Fields that administrators fill to create an entry, in the order of forms. The key comes first.
    own_fields: ClassVar[Mapping[type[Row], tuple[str, ...]]] = {}
    # The buttons that add entries in the admin, for kinds that administrators create.
    adding: ClassVar[Mapping[type[Row], Adding]] = {}
    # Relations to rows of the same kind that are always loaded with an entry.
    related: ClassVar[tuple[str, ...]] = ()
    # True if catalogue files contain entries of this source.
    travels: ClassVar[bool] = False
    # The reason why no entry of this source is offered. Empty if its entries are offered.
    unserved: ClassVar[str] = "this installation does not know its source"
    # True if background calls may need the token with which their caller logged in.
    uses_caller_token: ClassVar[bool] = False
    # Lists show lower ranks first.
    rank: ClassVar[int] = 1

    @property
    def follows(self) -> bool:
        """True if rows are copies of definitions stored elsewhere."""
        return bool(self.origin)

    def new(self, kind: type[Any], **values: Any) -> Any:
        """Return an unsaved row of this source."""
        return kind(source=self.stored, **values)

    def owns(self, row: Row) -> bool:
        """Return True for a row of this source."""
        return isinstance(row, self.kinds) and row.source == self.stored

    def rows(self) -> Q:
        """Return the condition that selects rows of this source among rows of its kinds."""
        return Q(source=self.stored)

    def editable(self, kind: type[Any]) -> frozenset[str]:
        """Return the fields of an entry that an administrator may set."""
        if not self.follows and kind not in self.own_fields:
            return frozenset()
        limits = LIMITS if kind is Tool else ()
        return frozenset((*APPEARANCE, *limits, *self.own_fields.get(kind, ())))

    def has_button(self, kind: type[Any]) -> bool:
        """Return True if the admin has a button for new entries of a kind that administrators create."""
        return True

    def adding_of(self, kind: type[Any]) -> Adding:
        """Return the button for a new entry of a kind."""
        return self.adding.get(kind) or Adding(self.label, "")

    def provided(self, kind: type[Any]) -> Mapping[str, Definition] | None:
        """Return the definitions that rows are copied from, by key, or None if this process has none."""
        return None

    def can_wait(self, request: str) -> bool:
        """Return True if a tool with a stored request, as JSON text, can be built when it is first needed.

        Building its definition then reads nothing but the row, and adds no limits, permission or tags.
        """
        return False

    def columns(self, definition: Definition) -> Mapping[str, Any]:
        """Return further columns of a row that is copied from a definition, as JSON values."""
        return {}

    def definition(self, row: Row) -> Definition | None:
        """Return the definition of a row, or None if it cannot be offered. Raises DefinitionError."""
        return self._provided(row)

    def offered(self, row: Row) -> Definition | None:
        """Return the definition of a row, or None if the row was fetched and is marked missing.

        A row that is copied from a definition of this process is offered as long as that definition exists.
        """
        fetched = self.follows and self.provided(type(row)) is None
        return None if fetched and row.missing else self.definition(row)

    def in_force(self, row: Row) -> dict[str, Any]:
        """Return the values that are effective without an administrator's values, by column.

        Texts come from the stored definition, so an entry whose code is not installed still has texts.
        """
        definition = self._provided(row)
        return texts_of(row.definition) if definition is None else stated(definition, row.definition)

    def permission_of(self, row: Row) -> str:
        """Return the permission that callers need, or ""."""
        definition = None if row.permission else self._provided(row)
        return str(row.permission if definition is None else definition.permission)

    def problem(self, row: Row) -> str:
        """Return the reason why a row is not offered, or ""."""
        if row.missing:
            return self.gone
        return self.unserved if row.enabled else "it is disabled"

    def check(self, row: Row, errors: Errors) -> None:
        """Add the problems of a row's own fields to ``errors``."""

    def permission_to_store(self, row: Row) -> tuple[str, str, str]:
        """Return the further permission that users need to store a row's own fields, "" for none.

        It comes with the field and the text of the refusal.
        """
        return "", "", ""

    def warnings(self, row: Row) -> Errors:
        """Return doubts about a row's fields, by field. A row with doubts can be stored."""
        tool = (self.base_of(row) or row) if isinstance(row, Tool) else None
        if tool is None or tool.output_schema is None:
            return {}
        return {name: [_NEVER_CUT] for name in RESULT_BOUNDS if getattr(row, name) is not None}

    def unavailable(self, kind: type[Any], key: str, row: Row | None) -> str:
        """Return the reason why a catalogue file cannot contain this entry here, or ""."""
        if not self.follows or (row is not None and not row.missing):
            return ""
        if key in (self.provided(kind) or {}):
            return f"It is in {self.origin} but not in the catalogue yet: run `manage.py mcp_prepare` first."
        return f"Unknown to this installation: {self.origin} must have it first, or take it out of the file."

    def base_of(self, row: Row) -> Tool | None:
        """Return the tool that provides an entry's definition, or None if the entry has its own."""
        return None

    def arguments_of(self, row: Tool) -> Any:
        """Return the input schema of a stored tool."""
        return row.input_schema

    def annotations_of(self, row: Tool) -> Any:
        """Return the annotations of a stored tool as clients see them."""
        return row.annotations

    def identity(self, row: Tool) -> list[Any]:
        """Return the values that determine the work of a tool, as JSON.

        An approval is valid for these values only.
        """
        base = self.base_of(row)
        return [_code(row), None if base is None else _code(base), row.fixed_arguments, *self.own_work(row)]

    def own_work(self, row: Tool) -> list[Any]:
        """Return the own values of a tool that determine its work, beside its code and fixed arguments."""
        own = self.own_fields.get(type(row), ())
        return [row.serializable_value(name) for name in own if name not in _IDENTIFIED]

    def _provided(self, row: Row) -> Definition | None:
        return (self.provided(type(row)) or {}).get(getattr(row, row.KEY))


def _code(row: Tool) -> list[Any]:
    return [row.pk, row.name, row.source, row.code_path, row.definition_hash]
