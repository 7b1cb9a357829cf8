"""Output schemas from return type hints."""

from __future__ import annotations

import enum
import inspect
import types
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pydantic
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUserError

from mcp_app.catalogue.definitions.content import CONTENT_CLASSES, ToolResult
from mcp_app.catalogue.definitions.typing_rules import UntitledJsonSchema, portable

_TEXTUAL = (str, bytes, bytearray, None, type(None), Any, object, inspect.Signature.empty)


@dataclass(frozen=True, slots=True)
class Output:
    """An output schema with an object at its root.

    ``wraps`` is True if results are sent as ``{"result": value}``.
    """

    schema: dict[str, Any] | None
    wraps: bool = False


def describe(hint: Any) -> Output:
    """Return the output schema for a return hint.

    Text and content have no schema. Object types keep their own schema. Other values are wrapped (TOOL-18).
    """
    hint = portable(hint)
    if _is_textual(hint):
        return Output(None)
    try:
        schema = pydantic.TypeAdapter(hint).json_schema(
            mode="serialization", schema_generator=UntitledJsonSchema
        )
    except (PydanticSchemaGenerationError, PydanticInvalidForJsonSchema, PydanticUserError):
        # A type such as QuerySet is allowed, but its schema is not known.
        return Output(None)
    return with_object_root(schema)


def with_object_root(schema: dict[str, Any]) -> Output:
    """Return the schema if it describes an object, otherwise an object with the member ``result``."""
    if _describes_object(schema):
        return Output({"type": "object", **schema})
    definitions = schema.pop("$defs", None)
    wrapped: dict[str, Any] = {"type": "object", "properties": {"result": schema}, "required": ["result"]}
    if definitions:
        wrapped["$defs"] = definitions
    return Output(wrapped, wraps=True)


def _describes_object(schema: dict[str, Any]) -> bool:
    if schema.get("type") == "object":
        return True
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    return bool(name) and schema.get("$defs", {}).get(name, {}).get("type") == "object"


def _is_textual(hint: Any) -> bool:
    """Return True if some values of this type become content blocks."""
    origin = get_origin(hint)
    if origin is Annotated:
        return _is_textual(get_args(hint)[0])
    if origin is Literal:
        return any(isinstance(value, str) for value in get_args(hint))
    if origin in (list, tuple):
        return any(_is_content(item) for item in get_args(hint))
    if origin in (Union, types.UnionType):
        return any(_is_textual(item) for item in get_args(hint) if item is not type(None))
    return hint in _TEXTUAL or _is_content(hint) or _is_text_enum(hint)


def _is_content(hint: Any) -> bool:
    if get_origin(hint) is not None and get_origin(hint) not in (list, dict, tuple):
        return any(_is_content(item) for item in get_args(hint))
    return isinstance(hint, type) and issubclass(hint, (*CONTENT_CLASSES, ToolResult))


def _is_text_enum(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, enum.Enum) and issubclass(hint, str)
