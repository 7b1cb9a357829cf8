"""Hostile arguments, most of which pass the schema and reach the exposed code."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from mcp_app.catalogue.schemas.validation import compile_schema

VALUES: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 2, 3, 6, 7, 9, 2**63, -(2**63), 1e30, 1e300, 0.5, -0.0, "", " ", "1", "3",
    "../1", "1/../3", "a/b", "%2e%2e", "%", "_", "' OR 1=1 --", "1;drop", "\x00", "é" * 300, "é" * 1001,
    "owner__password", "customer__owner__password", "-cost", "cost", "number", "-due", "id", "pk", "?",
    "0000-00-00", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-01-01", "2026-13-45",
    "12:00", "NaN", "Infinity", "-Infinity", "1e999", "9" * 40, "0." + "9" * 40, "1.5", "A0001", "open",
    "paid", "lost", "status", [], [None], [1], [1, "a"], ["open", "lost"], [[]], {}, {"a": 1}, "x:y:z",
)  # fmt: skip
NAMES = (
    "pk", "id", "page", "size", "search", "ordering", "order", "limit", "cursor", "customer", "number",
    "total", "extra", "cost", "cost__gte", "format", "owner__password__startswith", "customer__api_key",
    "api_key",
    "customer__owner__password__startswith", "extra__words", "status__regex", "line", "body", "user",
    "fields", "queryset", "using", "_connector", "pk__in",
)  # fmt: skip


def calls(
    tools: dict[str, dict[str, Any]], count: int, seed: int = 14
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield ``count`` calls of tools, given by name with their input schemas."""
    chance = Random(seed)
    fitting = {
        (name, member): [value for value in VALUES if compile_schema(schema).is_valid(value)]
        for name, tool in tools.items()
        for member, schema in tool["properties"].items()
    }
    for _ in range(count):
        name = chance.choice(tuple(tools))
        members = tuple(tools[name]["properties"])
        chosen = {
            *tools[name].get("required", ()),
            *chance.sample(members, min(len(members), chance.randint(0, 3))),
        }
        arguments = {}
        for member in sorted(chosen):
            values = fitting[name, member] if chance.random() < 0.9 else VALUES
            arguments[member] = chance.choice(values or VALUES)
        if chance.random() < 0.15:
            arguments[chance.choice(NAMES)] = chance.choice(VALUES)
        yield name, arguments
