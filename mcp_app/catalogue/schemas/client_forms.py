"""Tools as big clients send them to their models, and the reasons why a model API would refuse one.

OpenAI and its strict mode follow the Agents SDK, Gemini follows google-genai. Anthropic's API takes
schemas as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from mcp_app.catalogue.schemas.client_rules import RuleViolation, Wire, refusals
from mcp_app.catalogue.schemas.subschemas import Schema, mapped

_MAX_INLINED: Final = 12
_GEMINI: Final = (
    "title", "description", "format", "nullable", "default", "enum", "items", "minItems", "maxItems",
    "properties", "required", "minProperties", "maxProperties", "minimum", "maximum", "minLength",
    "maxLength", "pattern",
)  # fmt: skip
_GEMINI_FORMATS: Final = frozenset(("date-time", "enum", "float", "double", "int32", "int64"))
_NOT_STRICT: Final = ("allOf", "not", "if", "dependentRequired", "dependentSchemas", "patternProperties")


@dataclass(frozen=True, slots=True)
class ClientForm:
    """A tool as one client sends it. ``tool`` is None if the client cannot express it.

    ``problems`` are reasons for a refusal, ``changes`` are differences from the tool's own schema.
    """

    client: str
    tool: Wire | None
    problems: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Notes:
    problems: dict[str, None] = field(default_factory=dict)
    changes: dict[str, None] = field(default_factory=dict)


def client_forms(wire: Wire) -> list[ClientForm]:
    """Return a tool as OpenAI, OpenAI in strict mode, Gemini and Anthropic receive it."""
    broken = refusals(wire)
    return [
        _form("OpenAI", wire, _openai, [each for each in broken if _names(each, "OpenAI")]),
        _form("OpenAI strict", wire, _strict, [each for each in broken if _names(each, "OpenAI")]),
        _form("Gemini", wire, _gemini, [each for each in broken if _names(each, "Gemini")]),
        _form("Anthropic", wire, _anthropic, [each for each in broken if _names(each, "Claude")]),
    ]


def _form(
    client: str, wire: Wire, make: Callable[[Wire, _Notes], Wire | None], broken: Iterable[RuleViolation]
) -> ClientForm:
    notes = _Notes()
    tool = make(wire, notes)
    places = (f"{each.rule.problem} ({', '.join(each.places[:3])})" for each in broken)
    return ClientForm(client, tool, (*places, *notes.problems), tuple(notes.changes))


def _names(violation: RuleViolation, api: str) -> bool:
    """Return True if the API refuses the rule's violations for all tools, not in a special mode only."""
    return any(
        api in part and "strict" not in part for part in violation.rule.clients.replace(";", ",").split(",")
    )


def _named(wire: Wire) -> Wire:
    return {"name": wire["name"], "description": str(wire.get("description") or wire.get("title") or "")}


def _anthropic(wire: Wire, notes: _Notes) -> Wire:
    return {**_named(wire), "input_schema": wire["inputSchema"]}


def _openai(wire: Wire, notes: _Notes) -> Wire:
    schema = {"properties": {}, **wire["inputSchema"]}
    return {"type": "function", **_named(wire), "parameters": schema, "strict": False}


def _strict(wire: Wire, notes: _Notes) -> Wire | None:
    schema = _strict_node({"properties": {}, **wire["inputSchema"]}, notes)
    if notes.problems:
        return None
    return {"type": "function", **_named(wire), "parameters": schema, "strict": True}


def _strict_node(schema: Any, notes: _Notes) -> Any:
    """Return a schema whose objects are closed and require all their members."""
    if not isinstance(schema, dict):
        return schema
    found = mapped(schema, lambda _, child: _strict_node(child, notes))
    if "oneOf" in found:
        found["anyOf"] = [*found.get("anyOf", ()), *found.pop("oneOf")]
    for keyword in _NOT_STRICT:
        if keyword in found:
            notes.problems[f"strict mode does not know {keyword!r}"] = None
    if found.pop("default", None) is not None:
        notes.changes["defaults are left out"] = None
    if found.get("type") == "object" or "properties" in found:
        if found.get("additionalProperties", False) is not False:
            notes.problems["strict mode has no objects with arbitrary members"] = None
        properties = found.setdefault("properties", {})
        optional = [name for name in properties if name not in found.get("required", ())]
        if optional:
            notes.changes[f"the model has to fill optional members: {', '.join(optional[:5])}"] = None
        if not properties and found.get("additionalProperties") is None:
            notes.problems["strict mode has no objects with arbitrary members"] = None
        found |= {"additionalProperties": False, "required": list(properties)}
    elif not found.keys() & {"type", "anyOf", "enum", "$ref", "const"}:
        notes.problems["strict mode needs a type for each value"] = None
    return found


def _gemini(wire: Wire, notes: _Notes) -> Wire | None:
    root = wire["inputSchema"]
    schema = _gemini_node(root, root, notes, 0)
    if notes.problems:
        return None
    declaration = _named(wire)
    return {**declaration, "parameters": schema} if root.get("properties") else declaration


def _gemini_node(schema: Any, root: Schema, notes: _Notes, depth: int) -> Schema:
    """Return a schema with Gemini's keywords only. References are replaced with their targets."""
    if not isinstance(schema, dict):
        return {}
    if depth > _MAX_INLINED:
        notes.problems["Gemini has no types that contain themselves"] = None
        return {}
    if isinstance(reference := schema.get("$ref"), str):
        target = root.get("$defs", {}).get(reference.removeprefix("#/$defs/"), {})
        rest = {name: value for name, value in schema.items() if name != "$ref"}
        return _gemini_node({**target, **rest}, root, notes, depth + 1)
    found = {name: schema[name] for name in _GEMINI if name in schema}
    if dropped := schema.keys() - {*_GEMINI, "type", "anyOf", "$defs", "$schema", "additionalProperties"}:
        notes.changes[f"left out: {', '.join(sorted(dropped))}"] = None
    if isinstance(kind := schema.get("type"), str):
        found["type"] = kind.upper()
    if found.get("format") not in _GEMINI_FORMATS:
        found.pop("format", None)
    if "enum" in found and not all(isinstance(value, str) for value in found["enum"]):
        del found["enum"]
        notes.changes["lists of values that are not text are left out"] = None
    if isinstance(found.get("properties"), dict):
        found["properties"] = {
            name: _gemini_node(each, root, notes, depth + 1) for name, each in found["properties"].items()
        }
    if "items" in found:
        found["items"] = _gemini_node(found["items"], root, notes, depth + 1)
    if isinstance(branches := schema.get("anyOf"), list):
        _gemini_choice(branches, found, root, notes, depth)
    return found


def _gemini_choice(branches: list[Any], found: Schema, root: Schema, notes: _Notes, depth: int) -> None:
    """Add alternatives. Null becomes ``nullable``, and a single alternative replaces the choice."""
    kept = [each for each in branches if each != {"type": "null"}]
    if len(kept) < len(branches):
        found["nullable"] = True
    made = [_gemini_node(each, root, notes, depth + 1) for each in kept]
    if len(made) == 1:
        found.update({**made[0], **found})
    elif made:
        found["anyOf"] = made
