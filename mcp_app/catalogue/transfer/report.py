"""The report of an import as lines of plain text that are safe to print on any terminal."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import Any, Final

from mcp_app.catalogue.transfer.plan import Difference, FieldDifference
from mcp_app.catalogue.transfer.problems import Problem
from mcp_app.interface.text import marked

# Longer texts are not compared line by line, which takes quadratic time at worst.
MAX_LINES: Final = 1_000
MAX_SHOWN: Final = 200
_SIGNS: Final = {"added": "+", "changed": "~", "removed": "-"}


def difference_lines(differences: Iterable[Difference]) -> Iterator[str]:
    """Yield a line for each entry, followed by its fields as ``title: "old" → "new"``."""
    for difference in differences:
        yield marked(f"{_SIGNS[difference.action]} {difference.kind} {difference.key} ({difference.action})")
        for field in difference.fields:
            yield from (f"    {line}" for line in _field_lines(field, difference.action == "added"))
        yield from (marked(f"    Warning: {text}") for text in difference.warnings)


def problem_lines(problems: Iterable[Problem]) -> list[str]:
    """Return one line per problem."""
    return [marked(problem) for problem in problems]


def _field_lines(field: FieldDifference, is_new: bool) -> Iterator[str]:
    old, new = _text(field.old), _text(field.new)
    if "\n" in old + new:
        yield f"{field.name}:"
        yield from (f"  {line}" for line in _compared("" if is_new else old, new))
        return
    # The shown part must include the first difference.
    start = 0 if is_new else max(0, _common(old, new) - MAX_SHOWN // 2)
    shown = _cut(new, start) if is_new else f"{_cut(old, start)} → {_cut(new, start)}"
    yield marked(f"{field.name}: {shown}")


def _text(value: Any) -> str:
    """Return text of several lines unchanged, and other values as JSON."""
    if isinstance(value, str) and "\n" in value:
        return value
    text = json.dumps(value, ensure_ascii=False)
    if isinstance(value, (dict, list)) and len(text) > MAX_SHOWN:
        return json.dumps(value, ensure_ascii=False, indent=2)
    return text


def _compared(old: str, new: str) -> Iterator[str]:
    before, after = old.split("\n") if old else [], new.split("\n") if new else []
    if len(before) > MAX_LINES or len(after) > MAX_LINES:
        yield f"{len(before)} lines → {len(after)} lines, too many to compare"
        return
    for line in list(difflib.unified_diff(before, after, lineterm="", n=1))[2:]:
        yield "…" if line.startswith("@@") else _cut(marked(line), 0)


def _common(old: str, new: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))


def _cut(text: str, start: int) -> str:
    """Return at most MAX_SHOWN characters from ``start``, with an ellipsis on each cut side."""
    piece = text[start : start + MAX_SHOWN]
    return f"{'…' if start else ''}{piece}{'…' if start + MAX_SHOWN < len(text) else ''}"
