"""Rendering of the Markdown that this project's documents use: code, tables, links, emphasis.

Other markup stays plain text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Final

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

_CODE: Final = re.compile(r"^ *```.*?\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
# Code is the first alternative, because links and stars within code are literal.
_INLINE: Final = re.compile(
    r"`(?P<code>[^`]+)`"
    r"|(?P<picture>!)?\[(?P<words>[^\]]+)\]\((?P<address>[^)\s]+)\)"
    r"|\*\*(?P<strong>.+?)\*\*",
    re.DOTALL,
)
_CELL: Final = re.compile(r"(?<!\\)\|")
# Allowed targets of links: web addresses, other documents and headings. Pictures are not served.
_LEADS: Final = re.compile(r"https?://\S+|#\S+|[\w./-]+\.md(?:#\S+)?")


def html(text: str) -> SafeString:
    """Return the text of a section as HTML."""
    # With one group in the pattern, re.split returns text and the content of code blocks in turn.
    parts = _CODE.split(text)
    return _joined(
        format_html('<pre class="mcp-pre" tabindex="0">{}</pre>', part) if place % 2 else _prose(part)
        for place, part in enumerate(parts)
    )


def _prose(text: str) -> SafeString:
    blocks = (block for block in re.split(r"\n\s*\n", text) if block.strip())
    return _joined(piece for block in blocks for piece in _block(block.strip("\n")))


def _block(text: str) -> Iterator[SafeString]:
    for is_table, lines in groupby(text.split("\n"), key=lambda line: line.lstrip().startswith("|")):
        if is_table:
            yield _table([*lines])
        else:
            yield format_html('<p class="mcp-prose">{}</p>', inline(_unwrapped("\n".join(lines))))


def _unwrapped(text: str) -> str:
    """Join the lines of each paragraph and list item, because the browser wraps lines itself."""
    return re.sub(r"\n *(?!(?:[-*]|\d+\.) |\s)", " ", text)


def _table(lines: list[str]) -> SafeString:
    rows = [[inline(cell.strip()) for cell in _CELL.split(line.strip().strip("|"))] for line in lines]
    # An empty corner is no heading.
    head = _joined(
        format_html('<th scope="col">{}</th>' if cell else "<td>{}</td>", cell) for cell in rows[0]
    )
    # Each region of a page has its own name.
    name = ", ".join(cell.strip() for cell in _CELL.split(lines[0].strip().strip("|")) if cell.strip())
    first = _CELL.split(lines[2].strip().strip("|"))[0].strip() if len(lines) > 2 else ""
    body = _joined(
        format_html("<tr>{}</tr>", format_html_join("", "<td>{}</td>", ((cell,) for cell in row)))
        for row in rows[2:]
    )
    return format_html(
        '<div class="mcp-table mcp-table-words" tabindex="0" role="region" aria-label="Table: {}; {}">'
        "<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>",
        name.replace("`", ""),
        first.replace("`", ""),
        head,
        body,
    )


def inline(text: str) -> SafeString:
    """Return a line of Markdown as HTML, with code, links and emphasis."""
    pieces, end = [], 0
    for match in _INLINE.finditer(text):
        pieces += [format_html("{}", text[end : match.start()]), _marked_up(match)]
        end = match.end()
    return _joined([*pieces, format_html("{}", text[end:])])


def _marked_up(match: re.Match[str]) -> SafeString:
    if match["code"]:
        return format_html("<code>{}</code>", match["code"])
    if match["strong"]:
        return format_html("<b>{}</b>", inline(match["strong"]))
    words = inline(match["words"])
    if match["picture"] or not _LEADS.fullmatch(match["address"]):
        return words
    return format_html('<a href="{}">{}</a>', match["address"], words)


def _joined(pieces: Iterator[SafeString] | list[SafeString]) -> SafeString:
    return mark_safe("".join(pieces))  # noqa: S308  # Every piece was escaped as it was made.
