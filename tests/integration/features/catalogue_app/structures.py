"""Tools with valid and invalid structured results: models, data classes and dictionaries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

from pydantic import BaseModel

from mcp_app import ToolResult, tool


class Weather(BaseModel):
    """A pydantic model."""

    city: str
    degrees: float


@dataclass
class Point:
    """A data class."""

    x: int
    y: int


class Song(TypedDict):
    """A typed dictionary."""

    title: str
    seconds: int


@tool
def model_result() -> Weather:
    """Return a pydantic model."""
    return Weather(city="Bern", degrees=21.5)


@tool
def dataclass_result() -> Point:
    """Return a data class."""
    return Point(1, 2)


@tool
def typed_dict_result() -> Song:
    """Return a typed dictionary."""
    return {"title": "Alpenrose", "seconds": 180}


@tool
def mapping_result() -> dict[str, int]:
    """Return a mapping."""
    return {"a": 1}


@tool
def list_result() -> list[int]:
    """Return a list, which is wrapped in an object."""
    return [1, 2, 3]


@tool
def number_result() -> int:
    """Return a number, which is wrapped in an object."""
    return 7


@tool
def models_result() -> list[Weather]:
    """Return a list of models."""
    return [Weather(city="Bern", degrees=21.5)]


@tool
def unknown_list() -> Any:
    """Return an undeclared list."""
    return [1, "two", None]


@tool
def unknown_mapping() -> Any:
    """Return an undeclared object."""
    return {"said": False}


@tool(output_schema={"type": "array", "items": {"type": "integer"}})
def array_schema() -> Any:
    """Declare an array explicitly."""
    return [4, 5]


@tool
def wrong_structure() -> Point:
    """Return a value that violates the declared type."""
    return {"x": "one"}  # type: ignore[return-value]


@tool(output_schema={"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]})
def missing_structure() -> ToolResult:
    """Declare a structured result but return none."""
    return ToolResult("only words")


@tool(output_schema={"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]})
def failed_structure() -> ToolResult:
    """Declare a structured result but return an error, which needs none."""
    return ToolResult("it went wrong", is_error=True)
