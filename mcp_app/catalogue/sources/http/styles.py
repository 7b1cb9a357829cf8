"""Serialization of parameters by the ``style`` and ``explode`` of OpenAPI (3.1.1, section 4.8.12).

Undefined cells follow RFC 6570: null, empty lists and empty objects are left out. Values nested deeper than
the style describes are sent as JSON text, but under ``deepObject`` with more brackets.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal
from urllib.parse import quote

import orjson

Kind = Literal["primitive", "array", "object", ""]

# By place, the styles with the kinds of values that each one describes. The first style is the default.
STYLES: Final[dict[str, dict[str, frozenset[str]]]] = {
    "path": {name: frozenset(("primitive", "array", "object")) for name in ("simple", "label", "matrix")},
    "query": {
        "form": frozenset(("primitive", "array", "object")),
        "spaceDelimited": frozenset(("array", "object")),
        "pipeDelimited": frozenset(("array", "object")),
        "tabDelimited": frozenset(("array",)),  # Swagger 2.0: "collectionFormat": "tsv".
        # OpenAPI defines objects only. Servers that use this style read lists as ``name[0]``.
        "deepObject": frozenset(("array", "object")),
    },
    "header": {"simple": frozenset(("primitive", "array", "object"))},
    "cookie": {"form": frozenset(("primitive", "array", "object"))},
}
_SEPARATORS: Final = {"spaceDelimited": "%20", "pipeDelimited": "%7C", "tabDelimited": "%09"}
_LEADS: Final = {"simple": "", "label": ".", "matrix": ";"}
# Reserved characters that keep their meaning in a query. "&", "=", "+" and "#" would end a value.
_RESERVED: Final = "!$'()*,:;/?@[]"
_MAX_EXACT: Final = 2**53


def unsupported(place: str, style: str, explode: bool, kind: Kind) -> str:
    """Return the reason why values of ``kind`` cannot be sent in this style, or "".

    ``kind`` is "" if the schema allows several kinds.
    """
    kinds = STYLES.get(place, {}).get(style)
    if kinds is None:
        return f"the style {style!r} does not exist for {place} parameters"
    if kind and kind not in kinds:
        return f"the style {style!r} does not exist for a value of the kind {kind!r}"
    if explode and kind == "object" and style in _SEPARATORS:
        return f"the style {style!r} does not exist for objects with explode"
    return ""


def text_of(value: Any) -> str:
    """Return a value as text, as JSON writes it: ``true``, ``1``, ``1.5``. Lists and objects become JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < _MAX_EXACT:
        return str(int(value))
    return "" if value is None else json_text(value)


def json_text(value: Any) -> str:
    """Return a value as JSON without spaces."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # An integer of more than 64 bits.
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def path_text(value: Any, style: str = "simple", explode: bool = False, name: str = "") -> str:
    """Return the percent-encoded text that replaces a placeholder of a path."""
    lead, key = _LEADS[style], _encoded(name)
    if isinstance(value, dict):
        members = _members(value)
        if explode:
            return lead + (lead or ",").join(f"{k}={v}" for k, v in members) if members else ""
        return _led(style, key, ",".join(f"{k},{v}" for k, v in members), bool(members))
    if isinstance(value, list):
        items = _items(value)
        if not explode or style == "simple":
            return _led(style, key, ",".join(items), bool(items))
        return "".join(f";{key}={item}" if style == "matrix" else f".{item}" for item in items)
    return _led(style, key, _encoded(text_of(value)), value is not None)


def query_pairs(
    name: str, value: Any, style: str = "form", explode: bool = True, allow_reserved: bool = False
) -> list[str]:
    """Return the pairs ``name=value`` of a query, percent-encoded, without the ``&`` between them."""
    safe = _RESERVED if allow_reserved else ""
    if style == "deepObject":
        return [f"{_encoded(key)}={_encoded(text, safe)}" for key, text in _brackets(name, value)]
    key = _encoded(name)
    separator = _SEPARATORS.get(style, ",")
    if isinstance(value, dict):
        members = _members(value, safe)
        if explode:
            return [f"{k}={v}" for k, v in members]
        flat = [text for member in members for text in member]
        return [f"{key}={separator.join(flat)}"] if flat else []
    if isinstance(value, list):
        items = _items(value, safe)
        if explode:
            return [f"{key}={item}" for item in items]
        return [f"{key}={separator.join(items)}"] if items else []
    return [] if value is None else [f"{key}={_encoded(text_of(value), safe)}"]


def header_text(value: Any, explode: bool = False) -> str:
    """Return the value of a header in the style ``simple``. Headers are not percent-encoded."""
    if isinstance(value, dict):
        joint = "=" if explode else ","
        return ",".join(f"{k}{joint}{text_of(v)}" for k, v in value.items() if v is not None)
    if isinstance(value, list):
        return ",".join(text_of(item) for item in value if item is not None)
    return text_of(value)


def cookie_pairs(name: str, value: Any, explode: bool = True) -> list[str]:
    """Return the pairs ``name=value`` of cookies, percent-encoded, without the ``; `` between them."""
    return query_pairs(name, value, "form", explode)


def form_body(values: Mapping[str, Any], encoding: Mapping[str, Mapping[str, Any]] | None = None) -> bytes:
    """Return a body of the type ``application/x-www-form-urlencoded``.

    ``encoding`` has the style of each member, as in OpenAPI. Without a style, lists repeat the name, and
    objects are sent as JSON text.
    """
    pairs: list[str] = []
    for name, value in values.items():
        rule = (encoding or {}).get(name, {})
        style = str(rule.get("style") or "form")
        if not rule.keys() & {"style", "explode"} and isinstance(value, dict):
            value = text_of(value)  # noqa: PLW2901
        explode = bool(rule.get("explode", style == "form"))
        pairs += query_pairs(name, value, style, explode)
    return "&".join(pairs).encode()


def _led(style: str, key: str, text: str, is_defined: bool) -> str:
    if not is_defined:
        return ""
    if style == "matrix":
        return f";{key}={text}" if text else f";{key}"
    return _LEADS[style] + text


def _encoded(text: str, safe: str = "") -> str:
    # Most names and numbers need no encoding.
    return text if text.isascii() and text.isalnum() else quote(text, safe=safe)


def _items(values: list[Any], safe: str = "") -> list[str]:
    return [_encoded(text_of(value), safe) for value in values if value is not None]


def _members(value: Mapping[str, Any], safe: str = "") -> list[tuple[str, str]]:
    return [(_encoded(k), _encoded(text_of(v), safe)) for k, v in value.items() if v is not None]


def _brackets(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the pairs of ``deepObject``: ``name[member]``, and ``name[member][0]`` for deeper values."""
    if isinstance(value, dict):
        for key, member in value.items():
            yield from _brackets(f"{name}[{key}]", member)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _brackets(f"{name}[{number}]", item)
    elif value is not None:
        yield name, text_of(value)
