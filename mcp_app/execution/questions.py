"""What a tool may ask the person behind the client: a form from Python types, and the answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError, create_model

from mcp_app.catalogue.content import ToolError
from mcp_app.catalogue.typing_rules import portable

VALUE = "value"


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to an elicitation: ``action`` is accept, decline or cancel; ``content`` the form's members.

    ``value`` is the typed value when a Python type was asked for. An answer is true when it was accepted,
    and, if a single bool was asked for, when that is true.
    """

    action: str
    content: dict[str, Any] = field(default_factory=dict)
    value: Any = None

    def __bool__(self) -> bool:
        return self.action == "accept" and self.value is not False


def _is_simple(kind: Any) -> bool:
    if kind in (str, int, float, bool) or get_origin(kind) is Literal:
        return True
    return isinstance(kind, type) and issubclass(kind, Enum)


class Form:
    """A question's form: its JSON Schema, and how the answer becomes a Python value."""

    __slots__ = ("_adapter", "_simple", "schema")

    def __init__(self, kind: Any) -> None:
        """``kind``: a JSON Schema, a simple type, or a model, dataclass or TypedDict of simple types.

        Raises ValueError for another type.
        """
        self._adapter: TypeAdapter[Any] | None = None
        self._simple = False
        if isinstance(kind, dict):
            self.schema = kind
            return
        self._simple = _is_simple(kind)
        members: dict[str, Any] = {VALUE: (kind, ...)}
        model = create_model("Answer", **members) if self._simple else kind
        self._adapter = TypeAdapter(portable(model))
        schema = self._adapter.json_schema()
        if "properties" not in schema:
            raise ValueError(
                f"A form needs a simple type, or a class with members of simple types, not {kind!r}."
            )
        self.schema = flatten(schema)

    def read(self, content: dict[str, Any]) -> Any:
        """The typed value; raises ToolError when the content does not fit the type."""
        if self._adapter is None:
            return content
        try:
            value = self._adapter.validate_python(content)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the answer"
            raise ToolError(f"The answer does not fit the form: {where}: {first['msg']}.") from None
        return getattr(value, VALUE) if self._simple and isinstance(value, BaseModel) else value


def flatten(schema: dict[str, Any]) -> dict[str, Any]:
    """A form schema without references and unions with null, as elicitation demands (ELI-03)."""
    definitions = schema.get("$defs", {})

    def simple(member: dict[str, Any]) -> dict[str, Any]:
        if "$ref" in member:
            found = definitions[member["$ref"].rpartition("/")[2]]
            return simple({**found, **{key: value for key, value in member.items() if key != "$ref"}})
        if "anyOf" in member:
            kinds = [kind for kind in member["anyOf"] if kind.get("type") != "null"]
            if len(kinds) == 1:
                rest = {key: value for key, value in member.items() if key not in ("anyOf", "default")}
                return simple({**kinds[0], **rest})
        if "const" in member:
            return {"type": "string", "enum": [member["const"]]}
        if "items" in member:
            return {**member, "items": simple(member["items"])}
        return member

    properties = {name: simple(member) for name, member in schema.get("properties", {}).items()}
    flat: dict[str, Any] = {"type": "object", "properties": properties}
    if required := schema.get("required"):
        flat["required"] = required
    return flat
