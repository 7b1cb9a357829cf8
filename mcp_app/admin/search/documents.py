"""The project's own documents, read-only: their sections and a text search."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

PACKAGE: Final = Path(__file__).resolve().parents[2]
# Locations in a wheel and in the image (pyproject.toml, Dockerfile), and in a checkout.
INSTALLED: Final = PACKAGE / "documents"
CHECKOUT: Final = PACKAGE.parent / "docs"
_HEADING: Final = re.compile(r"(#{1,6}) +(.*)")
_MARKUP: Final = re.compile(r"[`*]")


class Section(NamedTuple):
    """A heading of a page and the text below it, up to the next heading of any level.

    ``page`` is a path relative to the folder. ``anchor`` is the fragment that code hosts and the site use.
    """

    page: str
    title: str
    level: int
    heading: str
    anchor: str
    text: str


def folder() -> Path | None:
    """Return the folder of the documents; None if the package was installed without them."""
    if INSTALLED.is_dir():
        return INSTALLED
    # Next to a vendored copy, ``docs`` belongs to the host project.
    return CHECKOUT if (PACKAGE.parent / "mcpsite").is_dir() and CHECKOUT.is_dir() else None


@cache
def pages() -> dict[str, list[Section]]:
    """Return the sections of every page by path. The files are read once per process."""
    root = folder()
    if root is None:
        return {}
    found = {path.relative_to(root).as_posix(): path for path in sorted(root.rglob("*.md"))}
    return {page: [*_sections(page, path.read_text(encoding="utf-8"))] for page, path in found.items()}


@cache
def _lower() -> list[tuple[Section, str]]:
    return [(section, section.text.lower()) for page in pages().values() for section in page]


def headings() -> Iterator[Section]:
    """Iterate over all sections."""
    return (section for section, _ in _lower())


def mentioning(words: str, most: int) -> list[Section]:
    """Return the sections that contain ``words``, most occurrences first."""
    wanted = words.lower()
    counted = [(text.count(wanted), section) for section, text in _lower() if wanted in text]
    return [section for _, section in sorted(counted, key=lambda each: -each[0])[:most]]


def _sections(page: str, text: str) -> Iterator[Section]:
    """Yield the sections of a page; lines inside code blocks are never headings."""
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
    """Return the anchor of a heading; repeated headings get a number."""
    words = re.sub(r"[^\w\s-]", "", heading).strip().lower().replace(" ", "-")
    seen[words] += 1
    return words if seen[words] == 1 else f"{words}-{seen[words] - 1}"
