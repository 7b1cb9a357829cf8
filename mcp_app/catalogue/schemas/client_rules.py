"""Rules that known clients and model APIs impose on tool definitions, in one table for all warnings.

One refused tool often makes all tools unusable, because clients send the whole list to a model API.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final

from mcp_app.catalogue.schemas.portable import kinds_of
from mcp_app.catalogue.schemas.subschemas import Schema, walk

Wire = dict[str, Any]

TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
PROPERTY_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule for definitions. ``find`` yields the places in a definition that break the rule."""

    id: str
    problem: str
    clients: str
    remedy: str
    find: Callable[[Wire], Iterator[str]]


@dataclass(frozen=True, slots=True)
class RuleViolation:
    """A tool that breaks a rule, and the places in its definition."""

    tool: str
    rule: Rule
    places: tuple[str, ...]

    def __str__(self) -> str:
        more = f" and {len(self.places) - SHOWN} more" if len(self.places) > SHOWN else ""
        places = ", ".join(self.places[:SHOWN]) + more
        return f"{self.tool}: {self.rule.problem} ({places}). Refused by {self.rule.clients}."


def refusals(wire: Wire) -> list[RuleViolation]:
    """Return the violated rules for the wire form of a tool."""
    if not isinstance(wire["inputSchema"], dict):
        return []
    found = ((rule, tuple(rule.find(wire))) for rule in RULES)
    return [RuleViolation(str(wire["name"]), rule, places) for rule, places in found if places]


def portable_names(names: Collection[str]) -> dict[str, str]:
    """Map each name that clients refuse to an accepted name: ``filter[state]`` to ``filter_state``."""
    found: dict[str, str] = {}
    taken = {name for name in names if PROPERTY_NAME.fullmatch(name)}
    for name in names:
        if name in taken:
            continue
        plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
        base = re.sub(r"[^A-Za-z0-9.-]+", "_", plain).strip("_.-")[:60] or "argument"
        choices = (base, *(f"{base}_{number}" for number in range(2, len(taken) + 3)))
        found[name] = next(choice for choice in choices if choice not in taken)
        taken.add(found[name])
    return found


def _of_name(wire: Wire) -> Iterator[str]:
    if not TOOL_NAME.fullmatch(wire["name"]):
        yield wire["name"]


def _of_root(*keywords: str) -> Callable[[Wire], Iterator[str]]:
    return lambda wire: (repr(keyword) for keyword in keywords if keyword in wire["inputSchema"])


def _without_properties(wire: Wire) -> Iterator[str]:
    if "properties" not in wire["inputSchema"]:
        yield "the root"


def _of_property(wire: Wire) -> Iterator[str]:
    for _, schema in walk(wire["inputSchema"]):
        properties = schema.get("properties") if isinstance(schema, dict) else None
        for name in properties if isinstance(properties, dict) else ():
            if not PROPERTY_NAME.fullmatch(name):
                yield repr(name)


def _of_any(broken: Callable[[Schema], object]) -> Callable[[Wire], Iterator[str]]:
    def find(wire: Wire) -> Iterator[str]:
        for path, schema in walk(wire["inputSchema"]):
            if isinstance(schema, dict) and broken(schema):
                yield _shown(path)

    return find


def _boolean(wire: Wire) -> Iterator[str]:
    for path, schema in walk(wire["inputSchema"]):
        if isinstance(schema, bool) and path[-1] not in ("additionalProperties", "unevaluatedProperties"):
            yield _shown(path)


def _recursive(wire: Wire) -> Iterator[str]:
    """Yield schemas that refer back to themselves. Clients that expand references would not finish."""
    root = wire["inputSchema"]
    leads: dict[str, set[str]] = {
        path: {str(node["$ref"]) for _, node in walk(schema) if isinstance(node, dict) and "$ref" in node}
        for path, schema in _definitions(root)
    }
    for start, first in leads.items():
        seen, pending = set[str](), list(first)
        while pending:
            if (target := pending.pop()) not in seen:
                seen.add(target)
                pending += leads.get(target, ())
        if start in seen:
            yield start


def _definitions(root: Schema) -> Iterator[tuple[str, Any]]:
    yield "#", root
    for home in ("$defs", "definitions"):
        members = root.get(home)
        for name, schema in members.items() if isinstance(members, dict) else ():
            yield f"#/{home}/{name}", schema


def _shown(path: tuple[str, ...]) -> str:
    return "/".join(path) or "the root"


RULES: Final = (
    Rule(
        "tool-name",
        "the name has more than 64 characters, or a dot",
        "OpenAI's API (by the Agents SDK, pydantic-ai, LangChain)",
        "Use at most 64 letters, digits, '_' and '-'.",
        _of_name,
    ),
    Rule(
        "root-choice",
        "a choice or a reference at the root of the arguments",
        "Claude's and OpenAI's API (also by Claude Code, Codex, Copilot)",
        "Describe all members in properties, and check in code which go together.",
        _of_root("anyOf", "oneOf", "allOf", "not", "enum", "$ref"),
    ),
    Rule(
        "root-properties",
        "an object without 'properties' at the root of the arguments",
        "OpenAI's API (by Copilot CLI, LangChain, Codex)",
        'Add "properties": {}.',
        _without_properties,
    ),
    Rule(
        "property-name",
        "an argument's name outside of [A-Za-z0-9_.-]{1,64}",
        "Claude's and OpenAI's API",
        "Rename the argument. A description may have any words.",
        _of_property,
    ),
    Rule(
        "types",
        "a list of types",
        "Gemini's API (by Copilot CLI and other clients)",
        "Write anyOf with one type each.",
        _of_any(lambda schema: isinstance(schema.get("type"), list)),
    ),
    Rule(
        "mixed-enum",
        "an enum of values of several types",
        "Gemini's API (by LangChain, google-genai)",
        "Write anyOf with an enum of one type each, or take texts.",
        _of_any(lambda schema: isinstance(schema.get("enum"), list) and len(kinds_of(schema["enum"])) > 1),
    ),
    Rule(
        "items",
        "an array without 'items'",
        "OpenAI's and Gemini's API, VS Code",
        "Add items, also beside prefixItems.",
        _of_any(lambda schema: schema.get("type") == "array" and "items" not in schema),
    ),
    Rule(
        "boolean",
        "true or false as a schema",
        "Gemini's API, TypeScript clients below 2.0",
        'Write {} for true and {"not": {}} for false.',
        _boolean,
    ),
    Rule(
        "patterns",
        "members by pattern ('patternProperties')",
        "Gemini's API; OpenAI's API in strict mode",
        "Use additionalProperties, and check names in code.",
        _of_any(lambda schema: "patternProperties" in schema),
    ),
    Rule(
        "recursion",
        "a type that contains itself",
        "LlamaIndex and mcp-use (with all tools of the server)",
        "Describe as many levels as you need, or take JSON as a text.",
        _recursive,
    ),
)
