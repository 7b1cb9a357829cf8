"""Owns showing text of unknown origin: hidden characters become visible, JSON is indented."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from mcp_app.observability.hidden_characters import HIDDEN

_IN_BLOCK = re.compile(f"([{HIDDEN}])")
_IN_LINE = re.compile(f"([\t\n{HIDDEN}])")
_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"?|[{}\[\],:]|[^\s"{}\[\],:]+', re.DOTALL)
# Indenting must not turn a deeply nested text of a few KiB into megabytes.
_DEEPEST_INDENT = 40


def code_point(character: str) -> str:
    """``U+202E`` for the character of that number."""
    return f"U+{ord(character):04X}"


def marked(text: object) -> str:
    """One line of plain text (not HTML) in which every hidden character reads ``⟦U+202E⟧``."""
    return _IN_LINE.sub(lambda match: f"⟦{code_point(match[1])}⟧", str(text))


def marked_block(text: str) -> str:
    """Lines of plain text (not HTML), marked as by ``marked``; line feeds and tabs stay."""
    return replace_hidden(text, lambda character: f"⟦{code_point(character)}⟧")


def has_hidden(text: str) -> bool:
    """Whether a text of several lines holds a hidden character."""
    return _IN_BLOCK.search(text) is not None


def replace_hidden(text: str, write: Callable[[str], str]) -> str:
    """A text of several lines with what ``write`` makes of each hidden character in its place."""
    return _IN_BLOCK.sub(lambda match: write(match[1]), text)


def _html(text: str, hidden: re.Pattern[str]) -> SafeString:
    # re.split with one group alternates text and separator, so every odd piece is one hidden character.
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
    """One line as escaped HTML; hidden characters, line feeds among them, become marks."""
    return format_html('<bdi class="mcp-text">{}</bdi>', _html(str(text), _IN_LINE))


def visible_block(text: object) -> SafeString:
    """Lines as escaped HTML for a ``pre``; hidden characters become marks, line feeds and tabs stay."""
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
    """At most about ``limit`` characters of ``text``, indented when it looks like JSON, otherwise as it is.

    Works on tokens without building values: numbers, escapes and duplicate names stay as sent, a text that
    was cut off is still indented, and nesting cannot exhaust the stack.
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


def json_text(value: Any) -> str:
    """A stored JSON value as indented text with stable order; characters beyond ASCII stay readable."""
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True, default=str)
