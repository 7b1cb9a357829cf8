"""``x-mcp-header``: arguments that clients repeat as headers, and the comparison (XMH-01 to XMH-13).

The catalogue reads the annotations once. The check of the routing headers compares them in each call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mcp_app.protocol.http.header_values import decode, encode, shown

ANNOTATION: Final = "x-mcp-header"
PREFIX: Final = b"mcp-param-"
MAX_SAFE_INTEGER: Final = 2**53 - 1

# The token of RFC 9110 section 5.6.2.
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_DECIMAL: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
_TYPES: Final = frozenset(("integer", "string", "boolean"))
# Names of secrets. An argument repeated as a header passes through proxies and their logs (XMH-11).
_SECRET: Final = re.compile(
    # The plural as in "max_tokens" stands for a number.
    r"passw|secret|token(?!s)|api[_-]?key|credential|authorization",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ParamHeader:
    """An annotated property: its header, for lookup and for display, and the path of its argument."""

    field: bytes
    name: str
    path: tuple[str, ...]

    def value(self, arguments: Mapping[str, Any]) -> Any:
        """Return the argument. Return None if it or an object that contains it is absent or null (XMH-13)."""
        found: Any = arguments
        for key in self.path:
            found = found.get(key) if isinstance(found, dict) else None
        return found


def read(schema: Mapping[str, Any]) -> tuple[ParamHeader, ...]:
    """Return the annotations of an input schema. Raise ValueError for an invalid annotation (XMH-06)."""
    if ANNOTATION in schema:
        raise ValueError(f"{ANNOTATION} belongs on a property, not on the schema itself.")
    found = tuple(_walk(schema, ()))
    names = [header.field for header in found]
    for header in found:
        if names.count(header.field) > 1:
            raise ValueError(f"{ANNOTATION} {header.name!r} is used for more than one property.")
    _refuse_elsewhere(schema, top=True)
    return found


def _walk(schema: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[ParamHeader]:
    properties = schema.get("properties")
    for name, member in properties.items() if isinstance(properties, dict) else ():
        if not isinstance(member, dict):
            continue
        if ANNOTATION in member:
            yield _header(member, (*path, name))
        yield from _walk(member, (*path, name))


def _header(member: Mapping[str, Any], path: tuple[str, ...]) -> ParamHeader:
    name, where = member[ANNOTATION], ".".join(path)
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        raise ValueError(f"{ANNOTATION} of {where!r} must be a header name, such as 'Region', not {name!r}.")
    kind = member.get("type")
    if not isinstance(kind, str) or kind not in _TYPES:
        raise ValueError(
            f"{ANNOTATION} of {where!r} needs the type integer, string or boolean, not {kind!r}."
        )
    secret = member.get("writeOnly") is True or member.get("format") == "password"
    if secret or _SECRET.search(path[-1]) or _SECRET.search(name):
        raise ValueError(f"{where!r} looks like a secret: {ANNOTATION} would show it to every proxy.")
    return ParamHeader(PREFIX + name.lower().encode(), f"Mcp-Param-{name}", path)


def _refuse_elsewhere(node: Any, *, top: bool) -> None:
    """Raise ValueError for an annotation that is not reached through ``properties`` alone (XMH-05)."""
    if isinstance(node, list):
        for item in node:
            _refuse_elsewhere(item, top=False)
    if not isinstance(node, dict):
        return
    if not top and ANNOTATION in node and not isinstance(node[ANNOTATION], dict):
        raise ValueError(f"{ANNOTATION} may stand on properties only, not inside of items, $defs or choices.")
    for keyword, below in node.items():
        if keyword in ("enum", "const", "default", "examples"):
            continue
        if keyword == "properties" and isinstance(below, dict):
            for member in below.values():
                # At the top level, the annotations of members have already been read. Deeper annotations
                # are refused.
                if top and isinstance(member, dict):
                    _refuse_elsewhere(_without_annotation(member), top=True)
                else:
                    _refuse_elsewhere(member, top=False)
        else:
            _refuse_elsewhere(below, top=False)


def _without_annotation(member: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in member.items() if key != ANNOTATION}


def mismatch(
    headers: tuple[ParamHeader, ...], fields: Mapping[bytes, bytes], arguments: Mapping[str, Any]
) -> str | None:
    """Return the first problem with a call's ``Mcp-Param-*`` headers, or None if they match the body."""
    for header in headers:
        value, sent = header.value(arguments), fields.get(header.field)
        if value is None:
            if sent is not None:
                return f"The header {header.name} was sent without its argument."
        elif sent is None:
            return f"The header {header.name} is missing."
        else:
            text = decode(sent)
            if text is None:
                return f"The header {header.name} is not validly encoded."
            if not _equal(text, value):
                where, header_text = ".".join(header.path), shown(text)
                return (
                    f"The header {header.name} is {header_text}, but {where} in the body is {shown(value)}."
                )
    return None


def sent(headers: tuple[ParamHeader, ...], arguments: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the ``Mcp-Param-*`` headers of a call to another server (XMH-07)."""
    found = ((header.name, header.value(arguments)) for header in headers)
    return tuple((name, encode(_text(value)).decode("ascii")) for name, value in found if value is not None)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _equal(text: str, value: Any) -> bool:
    """Return True if a header equals an argument (XMH-09). An argument of any other type never equals it."""
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    if isinstance(value, str):
        return text == value
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        decimal = _DECIMAL.fullmatch(text)
        if decimal is None or len(text) > 64 or abs(value) > MAX_SAFE_INTEGER:
            return False
        whole, _, fraction = text.partition(".")
        return not fraction.strip("0") and int(whole) == int(value)
    return False
