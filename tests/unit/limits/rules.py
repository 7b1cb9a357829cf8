"""Rules for tests, without rows."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace
from typing import Any

from mcp_app.limits.rules import RATE, Bucket, Rule

_ids = count(1)


def rule(name: str = "rule", **values: Any) -> Rule:
    """Return a rule for everybody and all tools, except for ``values``."""
    values = {"who": "installation", "who_value": "", "what": "everything", "what_value": "", **values}
    return Rule(next(_ids), name, **values)


def tool(name: str = "search", *tags: str, calls_per_minute: int | None = None, number: int = 1) -> Any:
    """Return a tool with the fields of an entry that limits read."""
    return SimpleNamespace(name=name, tags=tags, calls_per_minute=calls_per_minute, order=(0, 0, number))


def bucket(measure: str = RATE, **values: Any) -> Bucket:
    """Return one measure of a rule, counted for all callers."""
    return Bucket(rule(**values), measure, "all")
