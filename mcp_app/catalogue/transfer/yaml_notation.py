"""YAML as a notation for JSON values, without tags, anchors, aliases or second documents.

The text is read as parser events and no constructor runs. It therefore can neither name a Python type nor
repeat values through aliases.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any, Final

import yaml

from mcp_app.interface.text import has_hidden, replace_hidden

MAX_DEPTH: Final = 80

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_WORDS: Final[dict[str, Any]] = {"": None, "~": None, "null": None, "true": True, "false": False}
_INTEGER: Final = re.compile(r"-?(0|[1-9][0-9]*)")
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


class YamlError(ValueError):
    """Unreadable text. The message has the line, the column and the reason."""


def read(text: str, most: int) -> Any:
    """Parse the only document in ``text``, which may have at most ``most`` values. Raises YamlError."""
    try:
        return _Reader(yaml.parse(text, Loader=_LOADER), most).document()
    except yaml.MarkedYAMLError as error:
        raise _fault(error.problem_mark, f"{error.problem or error.context}.") from error
    except yaml.YAMLError as error:
        # An error without a position is about a character that YAML does not allow.
        raise YamlError(f"Not valid YAML: {str(error).partition(chr(10))[0]}.") from error


def write(value: Any) -> str:
    """Return ``value`` in block style, in which text of several lines stays readable."""
    text = yaml.dump(
        value,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=sys.maxsize,
    )
    # ``_Dumper`` double-quotes text with hidden characters, so each of these can be escaped here.
    return replace_hidden(text, lambda hidden: f"\\U{ord(hidden):08X}")


def plain_value(text: str) -> Any:
    """Return the value of an unquoted scalar. Raises ValueError for a number that is too long."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text


def _is_more_than_text(text: str) -> bool:
    try:
        return not isinstance(plain_value(text), str)
    except ValueError:
        return True


class _Reader:
    """A reader that turns parser events into values, and counts the values."""

    def __init__(self, events: Iterator[Any], most: int) -> None:
        self._events = events
        self._most = most
        self._values = 0

    def document(self) -> Any:
        """Return the value of the only document."""
        value: Any = None
        documents = 0
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise _fault(event.start_mark, "a second document begins here; one file has one.")
                value = self._value(next(self._events), 1)
        return value

    def _value(self, event: Any, depth: int) -> Any:
        self._check(event, depth)
        if isinstance(event, yaml.ScalarEvent):
            return _scalar(event)
        if isinstance(event, yaml.SequenceStartEvent):
            return list(self._items(depth))
        return self._members(depth)

    def _check(self, event: Any, depth: int) -> None:
        self._values += 1
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise _fault(event.start_mark, "anchors and aliases (& and *) are not allowed: write it out.")
        if event.tag is not None:
            raise _fault(event.start_mark, "tags (!) are not allowed: write the plain value.")
        if depth > MAX_DEPTH:
            raise _fault(event.start_mark, f"nested more than {MAX_DEPTH} levels deep.")
        if self._values > self._most:
            raise _fault(event.start_mark, f"more than {self._most} values: split the file.")

    def _items(self, depth: int) -> Iterator[Any]:
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            yield self._value(event, depth + 1)

    def _members(self, depth: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            self._check(event, depth + 1)
            if not isinstance(event, yaml.ScalarEvent):
                raise _fault(event.start_mark, "a member's name must be text.")
            if event.value in members:
                raise _fault(event.start_mark, f"the name {event.value!r} occurs twice in one object.")
            members[event.value] = self._value(next(self._events), depth + 1)
        return members


def _scalar(event: yaml.ScalarEvent) -> Any:
    if not event.implicit[0]:
        return event.value
    try:
        return plain_value(event.value)
    except ValueError as error:
        raise _fault(event.start_mark, "a number is too long.") from error


def _fault(mark: Any, text: str) -> YamlError:
    place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
    return YamlError(f"Not valid YAML{place}: {text}")


class _Dumper(yaml.SafeDumper):
    """A dumper that writes no anchors and quotes every ambiguous text."""

    def ignore_aliases(self, data: Any) -> bool:
        """Return True, so that equal values are written each time."""
        return True

    def represent_text(self, data: str) -> yaml.ScalarNode:
        """Return text as a node, quoted if necessary, or as a block if it has several lines."""
        style = None
        if has_hidden(data) or _is_more_than_text(data):
            style = '"'
        elif "\n" in data:
            style = "|"
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Dumper.add_representer(str, _Dumper.represent_text)
