"""The columns of a model that a tool may read, filter or sort by: their schemas and values.

All names and lookups are fixed at start. Clients cannot send names of columns or lookups.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from typing import Any, Final

from django.conf import settings
from django.core.exceptions import FieldDoesNotExist, ValidationError
from django.db import models
from django.utils import timezone

from mcp_app.catalogue.definitions.content import ToolError
from mcp_app.catalogue.definitions.definition import DefinitionError
from mcp_app.catalogue.schemas.schema_bounds import MAX_CHOICES

Schema = dict[str, Any]
MAX_LIST: Final = 100
MAX_TEXT: Final = 1_000
_TEXT_LOOKUPS: Final = (
    "iexact",
    "contains",
    "icontains",
    "startswith",
    "istartswith",
    "endswith",
    "iendswith",
)
_RANGE_LOOKUPS: Final = ("gt", "gte", "lt", "lte")
# The range of an integer column. Numbers outside of it raise driver errors on some databases.
_INTEGERS: Final = range(-(2**63), 2**63)
_TEXT: Final[Schema] = {"type": "string", "maxLength": MAX_TEXT}


@dataclass(frozen=True, slots=True)
class FieldKind:
    """The JSON schema for a class of fields, and its lookups in addition to exact, in and isnull."""

    schema: Schema
    lookups: tuple[str, ...] = _RANGE_LOOKUPS


# The first match counts, so subclasses precede their bases.
_KINDS: Final[tuple[tuple[type[models.Field[Any, Any]], FieldKind], ...]] = (
    (models.BooleanField, FieldKind({"type": "boolean"}, ())),
    (models.IntegerField, FieldKind({"type": "integer"})),
    (models.FloatField, FieldKind({"type": "number"})),
    (
        models.DecimalField,
        FieldKind({"type": ["string", "number"], "pattern": r"^-?[0-9]{1,40}(\.[0-9]{1,40})?$"}),
    ),
    (models.DateTimeField, FieldKind({"type": "string", "format": "date-time"})),
    (models.DateField, FieldKind({"type": "string", "format": "date"})),
    (models.TimeField, FieldKind({"type": "string", "format": "time"})),
    (models.UUIDField, FieldKind({"type": "string", "format": "uuid"}, ())),
    (models.FileField, FieldKind(_TEXT, ())),
    (models.CharField, FieldKind(_TEXT, (*_TEXT_LOOKUPS, *_RANGE_LOOKUPS))),
    (models.TextField, FieldKind(_TEXT, (*_TEXT_LOOKUPS, *_RANGE_LOOKUPS))),
)


@dataclass(frozen=True, slots=True)
class ModelColumn:
    """A column at ``path``, which is a field of the model or, with ``__``, of a related model.

    ``field`` is the model field that determines the type.
    """

    path: str
    field: Any
    is_null: bool

    @property
    def kind(self) -> FieldKind | None:
        """The kind of the field, or None for fields that can be read but not compared, such as JSON."""
        return next((kind for known, kind in _KINDS if isinstance(self.field, known)), None)

    def output(self) -> Schema:
        """Return the output schema of the column's values. The schema of an unknown kind allows any value."""
        described: Schema = {}
        if text := str(getattr(self.field, "help_text", "")):
            described["description"] = text
        if self.kind is None or hasattr(self.field, "from_db_value"):
            return described
        kind = "string" if isinstance(self.field, models.DecimalField) else self.kind.schema["type"]
        # NaN has no JSON form.
        is_null = self.is_null or isinstance(self.field, models.FloatField)
        return {"type": [kind, "null"] if is_null else kind, **described}

    def value(self, name: str, given: Any) -> Any:
        """Convert a JSON value to a value of the field. Raises ToolError with argument and problem."""
        if isinstance(given, str) and "\0" in given:
            raise ToolError(f"{name}: a text cannot hold the character NUL. Leave it out.")
        if isinstance(given, float) and isinstance(self.field, models.DecimalField):
            given = str(given)
        try:
            found = self.field.to_python(given)
            if isinstance(found, dt.datetime):
                found = _storable(found)
            if isinstance(found, Decimal):
                self.field.run_validators(found)
            if isinstance(found, int) and found not in _INTEGERS:
                raise OverflowError("it has more than 64 bits")
        except ValidationError as error:
            raise ToolError(f"{name}: {' '.join(error.messages):.300}") from None
        except (ValueError, TypeError, ArithmeticError) as error:
            raise ToolError(f"{name}: {given!r:.100} is no value of this field ({error}).") from None
        return found


def _storable(moment: dt.datetime) -> dt.datetime:
    """Convert a time to the form that the database stores.

    Raises OverflowError near the first and last days of the calendar, which do not exist in all zones.
    """
    if not settings.USE_TZ:
        # Without USE_TZ the rows have naive times in the project's time zone.
        zone = timezone.get_default_timezone()
        return moment if timezone.is_naive(moment) else timezone.make_naive(moment, zone)
    if timezone.is_naive(moment):
        moment = timezone.make_aware(moment)
    return moment.astimezone(dt.UTC)


@dataclass(frozen=True, slots=True)
class Filter:
    """An argument that filters a list. ``name`` is the filter as code writes it, such as ``created__gte``."""

    name: str
    column: ModelColumn
    lookup: str

    def schema(self) -> Schema:
        """Return the input schema of the argument."""
        assert self.column.kind is not None or self.lookup == "isnull"
        if self.lookup == "isnull":
            return {"type": "boolean"}
        one = self._one()
        if self.lookup == "in":
            return {"type": "array", "items": one, "maxItems": MAX_LIST}
        return one

    def _one(self) -> Schema:
        field, kind = self.column.field, self.column.kind
        found: Schema = {} if kind is None else dict(kind.schema)
        if field.choices and self.lookup in ("exact", "in") and len(field.flatchoices) <= MAX_CHOICES:
            return {"enum": [value for value, _ in field.flatchoices]}
        text = str(getattr(field, "help_text", ""))
        return {**found, "description": text} if text else found

    def value(self, given: Any) -> Any:
        """Convert the argument to the lookup's value."""
        if self.lookup == "isnull":
            return given
        if self.lookup == "in":
            return [self.column.value(self.name, item) for item in given]
        return self.column.value(self.name, given)


def column_of(where: str, kind: str, model: Any, path: str) -> ModelColumn:
    """Return the column at ``path``. Raises DefinitionError if it does not exist or has many values."""
    field: Any = None
    is_null = False
    for part in path.split("__"):
        if model is None:
            raise DefinitionError(f"{where}: {kind} {path!r}: nothing is below {field.name!r}.")
        field = _field(where, kind, model, path, part)
        is_null = is_null or field.null
        model = field.related_model if field.is_relation else None
    while field.is_relation:
        field = field.target_field
    return ModelColumn(path, field, is_null)


def _field(where: str, kind: str, model: Any, path: str, part: str) -> Any:
    own = [field for field in model._meta.fields if field.column]
    if part == "pk":
        return model._meta.pk
    found = next((field for field in own if part in (field.name, field.attname)), None)
    if found is not None:
        return found
    try:
        model._meta.get_field(part)
    except FieldDoesNotExist:
        names = sorted(field.name for field in own)
        near = get_close_matches(part, names, n=1)
        meant = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(names)}."
        raise DefinitionError(
            f"{where}: {kind} {path!r}: {model.__name__} has no {part!r}. {meant}"
        ) from None
    raise DefinitionError(f"{where}: {kind} {path!r}: {part!r} has many values. Write a tool for it.")


def filter_of(where: str, model: Any, name: str) -> Filter:
    """Return the filter for ``status`` or ``created__gte``. Raises DefinitionError for a wrong lookup."""
    parts = name.split("__")
    steps = _steps(model, parts)
    column = column_of(where, "filters", model, "__".join(parts[:steps]))
    lookup = "__".join(parts[steps:]) or "exact"
    allowed = ("isnull",) if column.kind is None else ("exact", "in", "isnull", *column.kind.lookups)
    if lookup not in allowed:
        raise DefinitionError(
            f"{where}: filters {name!r}: {lookup!r} is no lookup of it: {', '.join(allowed)}."
        )
    return Filter(name, column, lookup)


def _steps(model: Any, parts: list[str]) -> int:
    """Return the number of leading parts that name fields, at least 1. The remaining parts are the lookup."""
    for index, part in enumerate(parts):
        named = [field for field in model._meta.fields if part in (field.name, field.attname)]
        if not named and part != "pk":
            return max(index, 1)
        field = named[0] if named else model._meta.pk
        if not field.is_relation:
            return index + 1
        model = field.related_model
    return len(parts)
