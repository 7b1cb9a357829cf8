"""Reads a function's docstring: the prose a model sees, and what it says of each argument."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

_SECTION = re.compile(
    r"^(args|arguments|parameters|params|returns?|raises|yields?|examples?|notes?):?\s*$", re.IGNORECASE
)
_ARGUMENT_SECTIONS = frozenset({"args", "arguments", "parameters", "params"})
_ARGUMENT = re.compile(r"^\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")


@dataclass(frozen=True, slots=True)
class Docstring:
    """The description without its sections, and the description of each argument by name."""

    description: str = ""
    arguments: dict[str, str] = field(default_factory=dict)


def read(function: Callable[..., Any]) -> Docstring:
    """Split the docstring into prose and the entries of its ``Args:`` section."""
    text = inspect.getdoc(function) or ""
    prose: list[str] = []
    arguments: list[str] = []
    target: list[str] | None = prose
    for line in text.splitlines():
        heading = _SECTION.match(line)
        if heading and line.rstrip().endswith(":"):
            target = arguments if heading.group(1).lower() in _ARGUMENT_SECTIONS else None
            continue
        if target is not prose and line and not line[0].isspace():
            target = prose
        if target is not None:
            target.append(line)
    return Docstring("\n".join(prose).strip(), _arguments(arguments))


def _arguments(lines: list[str]) -> dict[str, str]:
    """``name: text`` entries; a deeper line continues the entry above it."""
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    indents = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    base = min(indents, default=0)
    for line in lines:
        entry = _ARGUMENT.match(line.strip()) if len(line) - len(line.lstrip()) == base else None
        if entry:
            current = found.setdefault(entry.group(1), [])
            current.append(entry.group(2))
        elif current is not None and line.strip():
            current.append(line.strip())
    return {name: " ".join(parts).strip() for name, parts in found.items()}
