"""The documents of this project: their sections and a text search. They are only read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

PACKAGE: Final = Path(__file__).resolve().parents[2]
# Location of the documents in a wheel and in the image (pyproject.toml, Dockerfile), and in a checkout.
INSTALLED: Final = PACKAGE / "documents"
CHECKOUT: Final = PACKAGE.parent / "docs"
_HEADING: Final = re.compile(r"(#{1,6}) +(.*)")
_MARKUP: Final = re.compile(r"[`*]")


class Section(NamedTuple):
    """A heading of a document, with the text up to the next heading of any level.

    ``page`` is the path of the document relative to the folder. ``anchor`` is the URL fragment of the heading
    on code hosts and on the documentation site.
    """

    page: str
    title: str
    level: int
    heading: str
    anchor: str
    text: str


def folder() -> Path | None:
    """Return the folder of the documents, or None if the package was installed without them."""
    if INSTALLED.is_dir():
        return INSTALLED
    # If the package is vendored, a neighboring folder ``docs`` belongs to the host project.
    return CHECKOUT if (PACKAGE.parent / "mcpsite").is_dir() and CHECKOUT.is_dir() else None


@cache
def pages() -> dict[str, list[Section]]:
    """Map the path of each document to its sections. Each process reads the files once."""
    root = folder()
    if root is None:
        return {}
    found = {path.relative_to(root).as_posix(): path for path in sorted(root.rglob("*.md"))}
    return {page: [*_sections(page, path.read_text(encoding="utf-8"))] for page, path in found.items()}


@cache
def _lower() -> list[tuple[Section, str]]:
    """Return the sections that the search finds. Records of decisions are for developers of this project."""
    found = (sections for page, sections in pages().items() if not page.startswith("decisions/"))
    return [(section, section.text.lower()) for sections in found for section in sections]


def headings() -> Iterator[Section]:
    """Return an iterator over the sections of all documents."""
    return (section for section, _ in _lower())


def mentioning(words: str, most: int) -> list[Section]:
    """Return sections that contain ``words``, those with the most occurrences first."""
    wanted = words.lower()
    counted = [(text.count(wanted), section) for section, text in _lower() if wanted in text]
    return [section for _, section in sorted(counted, key=lambda each: -each[0])[:most]]


def _sections(page: str, text: str) -> Iterator[Section]:
    """Yield the sections of a document. Lines within code blocks are never headings."""
    title, level, heading, lines, in_code = "", 1, "", list[str](), False
    seen: Counter[str] = Counter()
    for line in [*text.splitlines(), None]:
        found = None if line is None or in_code else _HEADING.fullmatch(line)
        if line is not None and not found:
            in_code ^= line.lstrip().startswith("```")
            lines.append(line)
            continue
        if heading:
            yield Section(page, title, level, heading, _anchor(heading, seen), "\n".join(lines).strip("\n"))
        if found:
            level, heading, lines = len(found[1]), _MARKUP.sub("", found[2]), []
            title = title or heading


def _anchor(heading: str, seen: Counter[str]) -> str:
    """Return the anchor of a heading. A number is added to the anchor of a repeated heading."""
    words = re.sub(r"[^\w\s-]", "", heading).strip().lower().replace(" ", "-")
    seen[words] += 1
    return words if seen[words] == 1 else f"{words}-{seen[words] - 1}"
