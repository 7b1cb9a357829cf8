"""The arguments of a call as names and values, for people who decide about the call."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

from django.utils.safestring import SafeString

from mcp_app.interface.text import indented_json, members, visible, visible_block
from mcp_app.observability.redaction import MARK

# A value of at most this many characters stands beside others.
SHORT: Final = 60
# Longer values are folded. Their first words are always visible.
LONG: Final = 300
MOST_LINES: Final = 8
FIRST_WORDS: Final = 160
# Further arguments are shown on the call's page only.
MOST_SHOWN: Final = 40
LONGEST_VALUE: Final = 20_000
# Texts that would be read as another JSON value without their quotes.
_AMBIGUOUS: Final = re.compile(r'\s|.*\s\Z|["{\[]|(?:true|false|null|-?\d[\d.eE+-]*)\Z|\Z', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument for display.

    ``short`` values fit beside others. ``first`` is the beginning of a folded value, or "" for other values.
    ``characters`` is the length of the whole value.
    """

    name: SafeString
    value: SafeString
    short: bool
    first: SafeString
    characters: int


@dataclass(frozen=True, slots=True)
class Given:
    """The arguments of a call. ``more`` is the number of arguments that are not listed."""

    arguments: list[Argument]
    more: int


def given(text: str) -> Given | None:
    """Return the arguments in a JSON object, or None if ``text`` is not an object."""
    found = members(text)
    if found is None:
        return None
    shown = [_argument(name, value) for name, value in found[:MOST_SHOWN]]
    return Given(shown, max(0, len(found) - MOST_SHOWN))


def _argument(name: str, value: str) -> Argument:
    text = _plain(value)
    lines = text.count("\n") + 1
    short = lines == 1 and len(text) <= SHORT
    folded = len(text) > LONG or lines > MOST_LINES
    shown = visible_block(text[:LONGEST_VALUE])
    first = visible(_beginning(text)) if folded else SafeString("")
    return Argument(visible(name), shown, short, first, len(text))


def _plain(value: str) -> str:
    """Return a JSON value as people read it: a text without quotes, an object or a list on several lines."""
    if not value.startswith('"'):
        return indented_json(value, LONGEST_VALUE) if len(value) > SHORT else value
    try:
        text = str(json.loads(value))
    except ValueError:
        return value
    return value if _AMBIGUOUS.match(text) and text != MARK else text


def _beginning(text: str) -> str:
    words = " ".join(text[:FIRST_WORDS].split())
    return words.rpartition(" ")[0] or words
