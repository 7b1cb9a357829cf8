"""The fields of entries in a catalogue file. Values are plain JSON without row ids or file locations."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final

from django.core.exceptions import ValidationError
from django.db import models

from mcp_app.catalogue.schemas.strict_json import MAX_JSON_CHARACTERS, check_storable
from mcp_app.catalogue.sources.base import Source
from mcp_app.catalogue.sources.content import files
from mcp_app.catalogue.sources.lookup import source_of
from mcp_app.catalogue.transfer.uploads import Upload, read_upload, upload_of
from mcp_app.models import Prompt, Resource, ResourceTemplate, Tool

SECTIONS: Final[dict[str, type[Any]]] = {
    "tools": Tool,
    "prompts": Prompt,
    "resources": Resource,
    "templates": ResourceTemplate,
}


def names_of(kind: type[Any], source: Source) -> list[str]:
    """Return the transferred fields in the order of the model, without the key."""
    allowed = source.editable(kind) - {kind.KEY}
    return [field.name for field in kind._meta.fields if field.name in allowed]


def empty_values(kind: type[Any], source: Source) -> dict[str, Any]:
    """Return the default values of an entry's fields."""
    fields = {name: kind._meta.get_field(name) for name in names_of(kind, source)}
    return {name: None if _is_file(field) else field.get_default() for name, field in fields.items()}


def values_of(row: Any) -> dict[str, Any]:
    """Return the fields of a stored entry. Raises FileRefusedError if its upload cannot be read."""
    return {name: _value(row, name) for name in names_of(type(row), source_of(row))}


def values_to_compare(row: Any) -> dict[str, Any]:
    """Return the same as ``values_of``, but an unreadable upload as one that differs from every other."""
    try:
        return values_of(row)
    except files.FileRefusedError:
        return {**values_of(_without_file(row)), "file": Upload("", b"")}


def written(value: Any) -> Any:
    """Return a value for a file. Members of objects are sorted, because databases differ in order."""
    if isinstance(value, Upload):
        return value.written()
    if isinstance(value, dict):
        return {name: written(value[name]) for name in sorted(value)}
    return [written(item) for item in value] if isinstance(value, list) else value


def shown(value: Any) -> Any:
    """Format a value for display in a list of differences."""
    return value.shown() if isinstance(value, Upload) else written(value)


def same(one: Any, other: Any) -> bool:
    """Return True if two values are equal as JSON. In JSON, unlike in Python, true and 1 differ."""
    if isinstance(one, Upload) and isinstance(other, Upload):
        return one.is_like(other)
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def read_value(kind: type[Any], name: str, value: Any) -> Any:
    """Parse a value of a file into the form of ``values_of``. Raises ValueError with the remedy.

    Only the type is checked here. ``services`` checks the value.
    """
    field = kind._meta.get_field(name)
    if _is_file(field):
        return read_upload(value)
    if value is None and field.null:
        return None
    try:
        check_storable(value)
    except ValidationError as error:
        raise ValueError(" ".join(error.messages)) from error
    return _typed(field, value)


def _typed(field: Any, value: Any) -> Any:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if isinstance(field, models.BooleanField):
        return _require(value, isinstance(value, bool), "true or false")
    if isinstance(field, models.FloatField):
        return float(_require(value, is_number and _fits_float(value), _or_null(field, "a number")))
    if isinstance(field, models.IntegerField):
        return _require(value, is_number and isinstance(value, int), _or_null(field, "a whole number"))
    if isinstance(field, models.JSONField):
        # A field that may be null, such as an output schema, holds an object.
        is_list = isinstance(field.get_default(), list)
        shape, wanted = (list, "a list") if is_list else (dict, "an object")
        _require(value, isinstance(value, shape), _or_null(field, wanted))
        if len(json.dumps(value, ensure_ascii=False)) > MAX_JSON_CHARACTERS:
            raise ValueError(f"Too long: at most {MAX_JSON_CHARACTERS} characters.")
        return value
    # The remaining fields hold text. A preset holds the name of its tool.
    return _require(value, isinstance(value, str), _or_null(field, "text"))


def _require(value: Any, condition: bool, wanted: str) -> Any:
    if not condition:
        raise ValueError(f"Must be {wanted}.")
    return value


def _or_null(field: Any, wanted: str) -> str:
    return f"{wanted} or null" if field.null else wanted


def _fits_float(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _is_file(field: Any) -> bool:
    return isinstance(field, models.FileField)


def _value(row: Any, name: str) -> Any:
    if name == "file":
        return upload_of(row)
    value = getattr(row, name)
    return value.name if isinstance(value, Tool) else value


def _without_file(row: Any) -> Any:
    bare = type(row)._default_manager.get(pk=row.pk)
    bare.file = ""
    return bare


def service_values(values: Mapping[str, Any], tools: Mapping[str, Tool]) -> dict[str, Any]:
    """Convert values to values for ``services``. ``tools`` maps names to stored tools."""
    given = dict(values)
    if "file" in given:
        given["file"] = given["file"].stored() if given["file"] is not None else ""
    if given.get("preset_of") is not None:
        given["preset_of"] = tools[given["preset_of"]]
    return given
