"""Rendering of admin-made prompts: ``{{name}}`` is replaced by an argument, once, and nothing else (S12)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_PLACEHOLDER: Final = re.compile(r"\{\{[ \t]*([A-Za-z_][A-Za-z0-9_]{0,63})[ \t]*\}\}")


def render(template: str, arguments: Mapping[str, str], declared: frozenset[str]) -> str:
    """Replace each declared placeholder; a missing optional argument is empty.

    One pass over the template, so a placeholder inside an argument stays text.
    """

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        return arguments.get(name, "") if name in declared else match.group(0)

    return _PLACEHOLDER.sub(value, template)


def placeholders(template: str) -> list[str]:
    """Return the names in a template, each once, in order."""
    return list(dict.fromkeys(_PLACEHOLDER.findall(template)))
