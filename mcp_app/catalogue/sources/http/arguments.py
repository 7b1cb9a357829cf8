"""Input schemas for plans: a schema from the places of the arguments, and its comparison with the plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcp_app.catalogue.sources.http.plan import RequestPlan, is_leaf

# The optional argument that picks members of the answer.
FIELDS: Final = "fields"


def schema_of(plan: RequestPlan, known: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return an input schema with a property for each argument of the plan.

    Properties in ``known`` are kept. Arguments of the path are required, and so are body arguments without a
    default.
    """
    kept = (known or {}).get("properties", {}) if isinstance(known, Mapping) else {}
    kept = kept if isinstance(kept, Mapping) else {}
    properties: dict[str, Any] = {}
    required: list[str] = []
    for parameter in plan.parameters:
        properties[parameter.argument] = kept.get(parameter.argument, {"type": "string"})
        if parameter.place == "path":
            required.append(parameter.argument)
    for name, default in _defaults(plan.body.template):
        if name not in properties:
            properties[name] = kept.get(name) or _typed(default)
    if plan.body.argument and plan.body.argument not in properties:
        usual = {"type": "string"} if plan.body.mode in ("text", "raw") else {"type": "object"}
        properties[plan.body.argument] = kept.get(plan.body.argument, usual)
        required.append(plan.body.argument)
    return {
        "type": "object",
        "properties": properties,
        "required": list(dict.fromkeys(required)),
        "additionalProperties": False,
    }


def _defaults(template: Any) -> list[tuple[str, Any]]:
    if is_leaf(template):
        return [(template["$argument"], template.get("default"))]
    members = template.values() if isinstance(template, Mapping) else template
    if not isinstance(template, (Mapping, list)):
        return []
    return [pair for member in members for pair in _defaults(member)]


def _typed(default: Any) -> dict[str, Any]:
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    found = kinds.get(type(default))
    if found is None:
        return {"type": "string"}
    return {"type": found, "default": default}


def unused(plan: RequestPlan, schema: Any) -> str:
    """Return the reason why a schema does not fit the plan, or ""."""
    properties = schema.get("properties", {}) if isinstance(schema, Mapping) else {}
    used = set(plan.arguments())
    sent = {plan.aliases.get(name, name) if name not in used else name: name for name in properties}
    if missing := sorted(used - sent.keys()):
        return f"The request uses the argument {missing[0]!r}, which is not in the input schema."
    known = used | ({FIELDS} if plan.result.fields else set())
    if extra := sorted(sent.keys() - known):
        return f"The argument {sent[extra[0]]!r} has no place in the request."
    required = schema.get("required", ())
    in_path = [each.argument for each in plan.parameters if each.place == "path"]
    if optional := sorted(name for name in in_path if sent[name] not in required):
        return f"The argument {sent[optional[0]]!r} is part of the path, so it must be required."
    return ""
