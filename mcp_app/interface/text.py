"""Safe display of untrusted text: hidden characters become visible, and JSON is indented."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from mcp_app.observability.hidden_characters import HIDDEN

_IN_BLOCK = re.compile(f"([{HIDDEN}])")
_IN_LINE = re.compile(f"([\t\n{HIDDEN}])")
_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"?|[{}\[\],:]|[^\s"{}\[\],:]+', re.DOTALL)
# Shown for a client that sent no name.
UNNAMED_CLIENT: Final = "unnamed client"
# Limits the indentation. Otherwise a deeply nested text of a few KiB would grow to megabytes.
_DEEPEST_INDENT = 40


def code_point(character: str) -> str:
    """Return a character's code point, such as ``U+202E``."""
    return f"U+{ord(character):04X}"


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun, such as "1 tool" or "1,200 tools"."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def marked(text: object) -> str:
    """Return one line of plain text (not HTML). Hidden characters are written as ``⟦U+202E⟧``."""
    return _IN_LINE.sub(lambda match: f"⟦{code_point(match[1])}⟧", str(text))


def marked_block(text: str) -> str:
    """Return several lines of plain text (not HTML), marked as ``marked`` does.

    Line feeds and tabs are not marked.
    """
    return replace_hidden(text, lambda character: f"⟦{code_point(character)}⟧")


def has_hidden(text: str) -> bool:
    """Return True if a text of several lines contains a hidden character."""
    return _IN_BLOCK.search(text) is not None


def has_hidden_in_line(text: str) -> bool:
    """Return True if ``marked`` would change a text."""
    return _IN_LINE.search(text) is not None


def replace_hidden(text: str, write: Callable[[str], str]) -> str:
    """Return a text of several lines. ``write`` returns the replacement for each hidden character."""
    return _IN_BLOCK.sub(lambda match: write(match[1]), text)


def _html(text: str, hidden: re.Pattern[str]) -> SafeString:
    # With one group in the pattern, re.split returns text and separators in turn. Every second piece is a
    # hidden character.
    pieces = hidden.split(text)
    if len(pieces) == 1:
        return format_html("{}", text)
    return format_html_join(
        "",
        "{}{}",
        (
            (format_html('<b class="mcp-mark">{}</b>', code_point(piece)), "") if place % 2 else (piece, "")
            for place, piece in enumerate(pieces)
        ),
    )


def visible(text: object) -> SafeString:
    """Return one line as escaped HTML. Hidden characters and line feeds become marks."""
    return format_html('<bdi class="mcp-text">{}</bdi>', _html(str(text), _IN_LINE))


def visible_block(text: object) -> SafeString:
    """Return several lines as escaped HTML for a ``pre`` element. Hidden characters become marks."""
    return _html(str(text), _IN_BLOCK)


def _indented(text: str) -> Iterator[str]:
    depth, opened = 0, False
    for piece in _PIECE.findall(text):
        closes = piece in "}]"
        depth -= closes
        if opened != closes:
            yield _line_start(depth)
        yield piece
        opened = piece in "{["
        depth += opened
        if piece == ",":
            yield _line_start(depth)
        elif piece == ":":
            yield " "


def _line_start(depth: int) -> str:
    return "\n" + "  " * min(max(depth, 0), _DEEPEST_INDENT)


def indented_json(text: str, limit: int) -> str:
    """Return about ``limit`` characters of ``text`` at most, indented if the text looks like JSON.

    The function works on tokens and builds no values. Numbers, escapes and duplicate names therefore stay as
    they are, truncated JSON is indented as well, and deep nesting cannot exhaust the stack.
    """
    if text.lstrip()[:1] not in ("{", "["):
        return text[:limit]
    size, pieces = 0, []
    for piece in _indented(text):
        size += len(piece)
        pieces.append(piece)
        if size >= limit:
            break
    return "".join(pieces)[:limit]


def members(text: str) -> list[tuple[str, str]] | None:
    """Return the names and JSON values of an object in their order, or None if ``text`` is not an object.

    This works on tokens, as ``indented_json`` does. Numbers stay as they are, and duplicate names remain.
    """
    pieces = _PIECE.findall(text)
    if pieces[:1] != ["{"] or pieces[-1:] != ["}"]:
        return None
    found: list[list[str]] = [[]]
    depth = 0
    for piece in pieces[1:-1]:
        depth += (piece in ("{", "[")) - (piece in ("}", "]"))
        if piece == "," and depth == 0:
            found.append([])
        else:
            found[-1].append(piece)
    if found == [[]]:
        return []
    if depth or any(len(each) < 3 or each[0][:1] != '"' or each[1] != ":" for each in found):
        return None
    try:
        return [(str(json.loads(name)), "".join(value)) for name, _, *value in found]
    except ValueError:
        return None


def json_text(value: Any) -> str:
    """Return a JSON value as indented text with sorted keys. Non-ASCII characters are not escaped."""
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True, default=str)
