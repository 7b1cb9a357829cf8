"""Conversion of application values to JSON values, with helpful errors for values without a JSON form."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import isfinite
from typing import Any

import orjson
from django.db.models import Model, QuerySet
from django.utils.functional import Promise
from pydantic_core import PydanticSerializationError, to_jsonable_python

from mcp_app.catalogue.definitions.content import ToolError
from mcp_app.observability.redaction import Redactor

MAX_ROWS = 1_000
_BYTES = (bytes, bytearray, memoryview)
_SAY_WHAT = "return bytes as Image, Audio or File, which say what they are, and text as str."
_ONLY_PLAIN = (
    orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
)


def jsonable(value: Any) -> Any:
    """Convert models, dataclasses, dates and the like to JSON values.

    Raise TypeError if there is no JSON form.
    """
    if type(value) in (str, int, bool):
        return value
    if _holds_rows(value):
        # All fields of a row would include fields that were not meant to be published.
        raise TypeError("return database rows as dicts of chosen fields, for example queryset.values('id').")
    if isinstance(value, _BYTES):
        raise TypeError(_SAY_WHAT)
    try:
        found = to_jsonable_python(value, by_alias=True, inf_nan_mode="constants", fallback=_text)
    except (PydanticSerializationError, TypeError, UnicodeDecodeError) as error:
        raise TypeError(f"it has no JSON form ({error}).") from error
    # Checked afterwards, because a value with a JSON form does not contain itself.
    if _holds_bytes(value):
        raise TypeError(_SAY_WHAT)
    return found


def _holds_bytes(value: Any) -> bool:
    """Return True for bytes in containers. Bytes in fields of models are declared with their encoding."""
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, dict):
            left += item
            left += item.values()
        elif isinstance(item, (list, tuple, set, frozenset)):
            left += item
        elif isinstance(item, _BYTES):
            return True
    return False


def plain_text(value: Any) -> str | None:
    """Return compact JSON of a dict or list of JSON's own types, else None.

    Use ``jsonable`` for others. UUIDs and members of enums are accepted, too, because their JSON is the same
    as with ``jsonable``.
    """
    if type(value) not in (dict, list):
        return None
    try:
        return orjson.dumps(value, option=_ONLY_PLAIN).decode()
    except orjson.JSONEncodeError:
        return None


def check_numbers(value: Any, text: str) -> None:
    """Raise ValueError for infinity or NaN in a value whose JSON ``text`` has ``null`` in their place."""
    if "null" in text and (found := _not_finite(value, "")):
        place, number = found
        where = f"{place} is" if place else "it is"
        raise ValueError(f"{where} {number}, which JSON does not have: return None or a text instead.")


def settle(value: Any) -> Any:
    """Convert a QuerySet to a list of at most 1,000 rows. Call it in a thread that may use the database."""
    if not isinstance(value, QuerySet):
        return value
    rows = list(value[: MAX_ROWS + 1])
    if len(rows) > MAX_ROWS:
        raise ToolError(f"More than {MAX_ROWS} rows; ask for a narrower selection.")
    return rows


def json_text(value: Any) -> str:
    """Return compact JSON. Raise TypeError for values that JSON or 64 bits cannot represent."""
    return orjson.dumps(value).decode()


def encodable(text: str) -> str:
    """Replace unpaired surrogates, which UTF-8 cannot encode (GEN-03)."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def sendable(data: Any, secret_names: tuple[str, ...]) -> Any:
    """Return log data as JSON without credentials (LOG-05), or an error text if it has no JSON form."""
    try:
        value = orjson.loads(orjson.dumps(jsonable(encodable(data) if isinstance(data, str) else data)))
    except TypeError as error:
        return f"not sent: {error}"
    return _redactor(secret_names).value(value)


@lru_cache(maxsize=1)
def _redactor(names: tuple[str, ...]) -> Redactor:
    return Redactor(names)


def _text(value: Any) -> str:
    if isinstance(value, Promise):
        return str(value)
    raise TypeError(f"Unable to serialize unknown type: {type(value)}")


def _holds_rows(value: Any) -> bool:
    first = value[0] if isinstance(value, (list, tuple)) and value else value
    return isinstance(first, Model)


def _not_finite(value: Any, place: str) -> tuple[str, float] | None:
    """Return the place and value of the first infinity or NaN in JSON values, or None."""
    if isinstance(value, float):
        return None if isfinite(value) else (place, value)
    inner: Iterable[tuple[str, Any]] = ()
    if isinstance(value, dict):
        inner = ((f"{place}.{name}".lstrip("."), each) for name, each in value.items())
    elif isinstance(value, list):
        inner = ((f"{place}[{number}]", each) for number, each in enumerate(value))
    return next(filter(None, (_not_finite(each, where) for where, each in inner)), None)
