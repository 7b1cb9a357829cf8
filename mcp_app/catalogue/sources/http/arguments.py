"""Input schemas for plans: a schema from the places of the arguments, and its comparison with the plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcp_app.catalogue.sources.http.plan import RequestPlan, is_leaf

# The optional argument that picks members of the answer.
FIELDS: Final = "fields"


def schema_of(plan: RequestPlan, known: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return an input schema with a property for each argument of the plan.

    Everything in ``known`` is kept, except properties without a place in the request. Arguments of the path
    and arguments that are the whole body are required.
    """
    given: Mapping[str, Any] = known if isinstance(known, Mapping) else {}
    properties = given.get("properties")
    kept: Mapping[str, Any] = properties if isinstance(properties, Mapping) else {}
    found: dict[str, Any] = {each.argument: {"type": "string"} for each in plan.parameters}
    for name, default in _defaults(plan.body.template):
        found.setdefault(name, _typed(default))
    must = {each.argument for each in plan.parameters if each.place == "path"}
    if plan.body.argument:
        is_text = plan.body.mode in ("text", "raw")
        found.setdefault(plan.body.argument, {"type": "string"} if is_text else {"type": "object"})
        must.add(plan.body.argument)
    wanted = given.get("required")
    must |= (
        {name for name in wanted if isinstance(name, str) and name in found}
        if isinstance(wanted, list)
        else set()
    )
    return {
        "type": "object",
        **given,
        "properties": {name: kept.get(name, usual) for name, usual in found.items()},
        "required": [name for name in found if name in must],
        "additionalProperties": given.get("additionalProperties", False),
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
