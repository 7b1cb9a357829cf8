"""Parsing of docstrings into the description for models and the descriptions of arguments.

Google, NumPy and Sphinx styles. Sections about results and exceptions are dropped: clients have the output
schema and the text of each error. Other sections, such as notes and examples, stay in the description.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

_ARGUMENTS: Final = frozenset({"args", "arguments", "parameters", "params", "other parameters"})
_LEFT_OUT: Final = frozenset({"return", "returns", "raise", "raises", "yield", "yields"})
_SPHINX_ARGUMENTS: Final = frozenset({"param", "parameter", "arg", "argument", "key", "keyword"})
_SPHINX_LEFT_OUT: Final = _LEFT_OUT | {"rtype", "type", "except", "exception"}

_GOOGLE_HEADING: Final = re.compile(r"([A-Za-z ]+):\s*")
_NUMPY_UNDERLINE: Final = re.compile(r"-{3,}\s*")
_SPHINX_FIELD: Final = re.compile(r":(\w+)(?:\s+([^:]*))?:\s*(.*)")
_NAME: Final = re.compile(r"\*{0,2}(\w+)\s*")


@dataclass(frozen=True, slots=True)
class Docstring:
    """A function's description without its sections, and the description of each argument by name."""

    description: str = ""
    arguments: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Section:
    """Lines of one section: ``title`` is empty for prose, and the argument's name for a Sphinx field."""

    style: str = ""
    title: str = ""
    lines: list[str] = field(default_factory=list)
    heading: tuple[str, ...] = ()

    @property
    def is_prose(self) -> bool:
        return self.style == "" or (self.style == "numpy" and self.title not in _ARGUMENTS | _LEFT_OUT)

    def arguments(self) -> dict[str, str]:
        if self.style == "sphinx":
            return {self.title: _joined(self.lines)} if self.title else {}
        if self.title not in _ARGUMENTS:
            return {}
        return _google(self.lines) if self.style == "google" else _numpy(self.lines)


def read(function: Callable[..., Any]) -> Docstring:
    """Split a function's docstring into prose and the descriptions of its arguments."""
    prose: list[str] = []
    arguments: dict[str, str] = {}
    for section in _sections((inspect.getdoc(function) or "").splitlines()):
        if section.is_prose:
            prose += [*section.heading, *section.lines]
        arguments |= section.arguments()
    return Docstring("\n".join(prose).strip(), arguments)


def _sections(lines: list[str]) -> Iterator[_Section]:
    section, place = _Section(), 0
    while place < len(lines):
        following = _section_at(lines, place, section)
        if following is None:
            section.lines.append(lines[place])
        else:
            yield section
            section = following
        place += len(following.heading) if following and following.heading else 1
    yield section


def _section_at(lines: list[str], place: int, present: _Section) -> _Section | None:
    """Return the section that starts at a line, or None if the current section continues."""
    line = lines[place]
    is_at_margin = bool(line) and not line[0].isspace()
    underline = lines[place + 1] if place + 1 < len(lines) else ""
    if is_at_margin and _NUMPY_UNDERLINE.fullmatch(underline):
        return _Section("numpy", line.strip().lower(), heading=(line, underline))
    if present.style == "numpy" or not is_at_margin:
        return None
    if found := _GOOGLE_HEADING.fullmatch(line):
        title = found[1].strip().lower()
        if title in _ARGUMENTS | _LEFT_OUT:
            return _Section("google", title)
    if found := _SPHINX_FIELD.fullmatch(line):
        if found[1] in _SPHINX_ARGUMENTS:
            name = (found[2] or "").split()[-1:]  # A type may precede the name.
            return _Section("sphinx", "".join(name).lstrip("*\\"), [found[3]])
        if found[1] in _SPHINX_LEFT_OUT:
            return _Section("sphinx")
    return _Section(lines=[line]) if present.style else None


def _google(lines: list[str]) -> dict[str, str]:
    """Parse ``name: text`` and ``name (type): text``. A deeper line continues the entry above it."""
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    base = _least_indent(lines)
    for line in lines:
        entry = _entry(line.strip()) if _indent(line) == base else None
        if entry:
            current = found.setdefault(entry[0], [])
            current.append(entry[1])
        elif current is not None:
            current.append(line)
    return {name: _joined(parts) for name, parts in found.items()}


def _entry(line: str) -> tuple[str, str] | None:
    name = _NAME.match(line)
    if name is None:
        return None
    rest = _without_type(line[name.end() :]).lstrip()
    return (name[1], rest[1:].strip()) if rest.startswith(":") else None


def _without_type(text: str) -> str:
    """Return the text after a type in parentheses, which may nest."""
    depth = 0
    for place, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if not depth:
            return text[place + 1 :] if character == ")" else text
    return text


def _numpy(lines: list[str]) -> dict[str, str]:
    """Parse ``name : type`` or ``first, second : type`` at the margin, with the text indented below it."""
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in lines:
        if line and not line[0].isspace():
            current = []
            for name in line.partition(":")[0].split(","):
                found[name.strip().lstrip("*")] = current
        else:
            current.append(line)
    return {name: _joined(parts) for name, parts in found.items()}


def _joined(lines: Iterable[str]) -> str:
    return " ".join(filter(None, map(str.strip, lines)))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _least_indent(lines: Iterable[str]) -> int:
    return min((_indent(line) for line in lines if line.strip()), default=0)
