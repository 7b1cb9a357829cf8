"""YAML as a notation for JSON values, with bounded anchors and merge keys.

The text is read as parser events and no constructor runs, so it cannot name a Python type. An alias shares
the value of its anchor. The number of values behind aliases is bounded, so that a short text cannot become a
huge document.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import inf, isfinite
from typing import Any, Final

import yaml

MAX_DEPTH: Final = 200
MAX_VALUES: Final = 5_000_000
# The values that all aliases of a document stand for.
MAX_REPEATED: Final = 10_000

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_WORDS: Final[dict[str, Any]] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,400}")
_NUMBER: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_TEXT: Final = "tag:yaml.org,2002:str"
_PLAIN: Final = frozenset(
    f"tag:yaml.org,2002:{name}"
    for name in ("str", "int", "float", "bool", "null", "map", "seq", "timestamp", "merge")
)
_MERGE: Final = "<<"


class YamlError(ValueError):
    """Unreadable text. The message has the line, the column and the reason."""


def read(text: str) -> Any:
    """Parse the only document in ``text``. Raises YamlError."""
    try:
        return _Reader(yaml.parse(text, Loader=_LOADER)).document()
    except yaml.MarkedYAMLError as error:
        raise _fault(error.problem_mark, f"{error.problem or error.context}.") from error
    except yaml.YAMLError as error:
        # An error without a position is about a character that YAML does not allow.
        raise YamlError(f"The document is not valid YAML: {str(error).partition(chr(10))[0]}.") from error


def plain_value(text: str) -> Any:
    """Return the value of an unquoted scalar by the core schema of YAML 1.2. Dates stay text.

    As in JSON, integers above 64 bits become floating-point numbers. Numbers above those stay text.
    """
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text) and -(2**63) <= (number := int(text)) < 2**64:
        return number
    found = float(text) if _NUMBER.fullmatch(text) else inf
    return found if isfinite(found) else text


class _Reader:
    """A reader that turns parser events into values, and counts the values."""

    def __init__(self, events: Iterator[Any]) -> None:
        self._events = events
        self._values = self._repeated = 0
        self._anchors: dict[str, tuple[Any, int]] = {}

    def document(self) -> Any:
        """Return the value of the only document."""
        value: Any = None
        documents = 0
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise _fault(event.start_mark, "a second document begins here; a file has one.")
                value = self._value(next(self._events), 1)
        return value

    def _value(self, event: Any, depth: int) -> Any:
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        self._check(event, depth)
        before = self._values + self._repeated
        if isinstance(event, yaml.ScalarEvent):
            value = _scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            value = list(self._items(depth))
        else:
            value = self._members(depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = value, self._values + self._repeated - before + 1
        return value

    def _alias(self, event: Any) -> Any:
        if event.anchor not in self._anchors:
            raise _fault(event.start_mark, f"the alias *{event.anchor} has no anchor before it.")
        value, size = self._anchors[event.anchor]
        self._repeated += size
        if self._repeated > MAX_REPEATED:
            raise _fault(event.start_mark, f"aliases repeat more than {MAX_REPEATED} values.")
        return value

    def _check(self, event: Any, depth: int) -> None:
        self._values += 1
        if event.tag is not None and event.tag not in _PLAIN:
            raise _fault(event.start_mark, "tags (!) are not allowed: write the plain value.")
        if depth > MAX_DEPTH:
            raise _fault(event.start_mark, f"nested more than {MAX_DEPTH} levels deep.")
        if self._values > MAX_VALUES:
            raise _fault(event.start_mark, f"more than {MAX_VALUES} values.")

    def _items(self, depth: int) -> Iterator[Any]:
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            yield self._value(event, depth + 1)

    def _members(self, depth: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        merged: list[Any] = []
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise _fault(event.start_mark, "a member's name must be text.")
            name = event.value
            if name in members:
                raise _fault(event.start_mark, f"the name {name[:100]!r} occurs twice in one object.")
            value = self._value(next(self._events), depth + 1)
            if name == _MERGE and event.implicit[0]:
                merged += value if isinstance(value, list) else [value]
            else:
                members[name] = value
        for more in merged:
            members = {**more, **members} if isinstance(more, dict) else members
        return members


def _scalar(event: yaml.ScalarEvent) -> Any:
    if not event.implicit[0] or event.tag == _TEXT:
        return event.value
    return plain_value(event.value)


def _fault(mark: Any, text: str) -> YamlError:
    place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
    return YamlError(f"The document cannot be read as YAML{place}: {text}")
