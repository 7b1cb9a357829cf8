"""Rendering of prompt templates, in which each ``{{name}}`` is replaced with an argument (S12)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_PLACEHOLDER: Final = re.compile(r"\{\{[ \t]*([A-Za-z_][A-Za-z0-9_]{0,63})[ \t]*\}\}")
_SINGLE_BRACES: Final = re.compile(r"(?<!\{)\{([A-Za-z_][A-Za-z0-9_]{0,63})\}(?!\})")

_UNCLOSED: Final = re.compile(r"\{\{[ \t]*([A-Za-z_][A-Za-z0-9_]{0,63})\b(?![ \t]*\}\})")


def render(template: str, arguments: Mapping[str, str], declared: frozenset[str]) -> str:
    """Replace each declared placeholder. A missing optional argument counts as empty.

    The template is read once, so a placeholder inside an argument is not replaced.
    """

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        return arguments.get(name, "") if name in declared else match.group(0)

    return _PLACEHOLDER.sub(value, template)


def placeholders(template: str) -> list[str]:
    """Return the names of the placeholders in a template, in order and without duplicates."""
    return list(dict.fromkeys(_PLACEHOLDER.findall(template)))


def in_single_braces(template: str) -> list[str]:
    """Return the names in single braces, which are plain text, in order and without duplicates."""
    return list(dict.fromkeys(_SINGLE_BRACES.findall(template)))


def unclosed(template: str) -> list[str]:
    """Return the names after ``{{`` that ``}}`` does not follow. They are plain text."""
    return list(dict.fromkeys(_UNCLOSED.findall(template)))
