"""Tools with structured results: of models, data classes and dictionaries, right and wrong."""

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
    """Answers a pydantic model."""
    return Weather(city="Bern", degrees=21.5)


@tool
def dataclass_result() -> Point:
    """Answers a data class."""
    return Point(1, 2)


@tool
def typed_dict_result() -> Song:
    """Answers a typed dictionary."""
    return {"title": "Alpenrose", "seconds": 180}


@tool
def mapping_result() -> dict[str, int]:
    """Answers a mapping."""
    return {"a": 1}


@tool
def list_result() -> list[int]:
    """Answers a list, which travels inside an object."""
    return [1, 2, 3]


@tool
def number_result() -> int:
    """Answers a number, which travels inside an object."""
    return 7


@tool
def models_result() -> list[Weather]:
    """Answers a list of models."""
    return [Weather(city="Bern", degrees=21.5)]


@tool
def unknown_list() -> Any:
    """Answers a list without having said so."""
    return [1, "two", None]


@tool
def unknown_mapping() -> Any:
    """Answers an object without having said so."""
    return {"said": False}


@tool(output_schema={"type": "array", "items": {"type": "integer"}})
def array_schema() -> Any:
    """Declares an array by hand."""
    return [4, 5]


@tool
def wrong_structure() -> Point:
    """Answers something else than it declares."""
    return {"x": "one"}  # type: ignore[return-value]


@tool(output_schema={"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]})
def missing_structure() -> ToolResult:
    """Declares structure and answers none."""
    return ToolResult("only words")


@tool(output_schema={"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]})
def failed_structure() -> ToolResult:
    """Declares structure, but fails, which needs none."""
    return ToolResult("it went wrong", is_error=True)
