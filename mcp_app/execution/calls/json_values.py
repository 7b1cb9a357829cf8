"""Conversion of application values to JSON values, with helpful errors for values that JSON lacks."""

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
    """Convert a value (a model, dataclass, date …) to JSON values.

    Raise TypeError for a value that JSON cannot represent.
    """
    if type(value) in (str, int, bool):
        return value
    if _holds_rows(value):
        # Converting a row would publish all of its fields, including fields that should stay private.
        raise TypeError("return database rows as dicts of chosen fields, for example queryset.values('id').")
    if isinstance(value, _BYTES):
        raise TypeError(_SAY_WHAT)
    try:
        found = to_jsonable_python(value, by_alias=True, inf_nan_mode="constants", fallback=_text)
    except (PydanticSerializationError, TypeError, UnicodeDecodeError) as error:
        raise TypeError(f"it has no JSON form ({error}).") from error
    # Checked after the conversion, which fails for a value that contains itself.
    if _holds_bytes(value):
        raise TypeError(_SAY_WHAT)
    return found


def _holds_bytes(value: Any) -> bool:
    """Return True if a container holds bytes.

    Bytes in a model's fields are allowed: the model sets the encoding.
    """
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
    """Return compact JSON for a dict or list that holds only JSON's own types, else None.

    Use ``jsonable`` if the result is None. UUIDs and members of enums are accepted as well, because
    ``jsonable`` converts them in the same way.
    """
    if type(value) not in (dict, list):
        return None
    try:
        return orjson.dumps(value, option=_ONLY_PLAIN).decode()
    except orjson.JSONEncodeError:
        return None


def check_numbers(value: Any, text: str) -> None:
    """Raise ValueError if ``value`` contains infinity or NaN.

    Its JSON ``text`` has ``null`` in their place.
    """
    if "null" in text and (found := _not_finite(value, "")):
        place, number = found
        where = f"{place} is" if place else "it is"
        raise ValueError(f"{where} {number}, which JSON does not have: return None or a text instead.")


def settle(value: Any) -> Any:
    """Convert a QuerySet to a list of at most 1,000 rows. Call this in a thread that may use the database."""
    if not isinstance(value, QuerySet):
        return value
    rows = list(value[: MAX_ROWS + 1])
    if len(rows) > MAX_ROWS:
        raise ToolError(f"More than {MAX_ROWS} rows; ask for a narrower selection.")
    return rows


def json_text(value: Any) -> str:
    """Return compact JSON. Raise TypeError for values that do not fit into JSON or into 64-bit integers."""
    return orjson.dumps(value).decode()


def encodable(text: str) -> str:
    """Replace unpaired surrogates, because UTF-8 cannot encode them (GEN-03)."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def sendable(data: Any, secret_names: tuple[str, ...]) -> Any:
    """Return log data as JSON values without credentials (LOG-05).

    Return an error text if that is impossible.
    """
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
    """Return the path and value of the first infinity or NaN in JSON values, or None."""
    if isinstance(value, float):
        return None if isfinite(value) else (place, value)
    inner: Iterable[tuple[str, Any]] = ()
    if isinstance(value, dict):
        inner = ((f"{place}.{name}".lstrip("."), each) for name, each in value.items())
    elif isinstance(value, list):
        inner = ((f"{place}[{number}]", each) for number, each in enumerate(value))
    return next(filter(None, (_not_finite(each, where) for where, each in inner)), None)
