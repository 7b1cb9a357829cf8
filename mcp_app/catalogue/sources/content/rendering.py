"""Admin-made prompt text: ``{{name}}`` is replaced by an argument, once, and nothing else happens (S12)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_PLACEHOLDER: Final = re.compile(r"\{\{[ \t]*([A-Za-z_][A-Za-z0-9_]{0,63})[ \t]*\}\}")


def render(template: str, arguments: Mapping[str, str], declared: frozenset[str]) -> str:
    """The text with each declared placeholder replaced; a missing optional argument is empty.

    One pass over the template, so a placeholder inside an argument stays text.
    """

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        return arguments.get(name, "") if name in declared else match.group(0)

    return _PLACEHOLDER.sub(value, template)


def placeholders(template: str) -> list[str]:
    """The names used in a template, each once, in order."""
    return list(dict.fromkeys(_PLACEHOLDER.findall(template)))
