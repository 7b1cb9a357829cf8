"""Return values of tools and their encoding."""

from __future__ import annotations

import datetime as dt
import math
from base64 import b64decode, b64encode
from collections import OrderedDict
from dataclasses import dataclass
from enum import Enum
from typing import Any
from uuid import UUID

import orjson
import pytest
from django.contrib.auth.models import User
from django.utils.translation import gettext_lazy
from pydantic import BaseModel, Field

from mcp_app import Annotations, Audio, File, Image, Link, Text, ToolResult
from mcp_app.catalogue.snapshots.entries import ToolEntry
from mcp_app.execution.calls.results import error_result, to_result
from mcp_app.protocol.messages.jsonrpc import encode_result
from tests.samples.media_samples import FOR_MODELS
from tests.unit.catalogue.entries import tool_entry

GIF = FOR_MODELS["image/gif"]
NESTED_BYTES: list[Any] = [
    {"a": b"x"},
    {"a": [{"b": (b"x",)}]},
    {b"x": 1},
    [bytearray(b"x")],
    {"at": dt.date(2025, 11, 25), "b": b"x"},
]


class Report(BaseModel):
    row_count: int = Field(alias="rowCount")


@dataclass
class Size:
    width: int
    at: dt.date


def entry(returns: Any = Any, **options: Any) -> ToolEntry:
    def function() -> Any: ...

    function.__annotations__["return"] = returns
    return tool_entry(function, **options)


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


@pytest.mark.requirement("TOOL-13", "TOOL-15", "RES-14")
@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("hello", [text("hello")]),
        ("", [text("")]),
        ("\ud800 half", [text("? half")]),
        (None, [text("null")]),
        (3, [text("3")]),
        (True, [text("true")]),
        ([1, "a"], [text('[1,"a"]')]),
        (dt.date(2025, 11, 25), [text("2025-11-25")]),
        (Image(GIF), [{"type": "image", "data": b64encode(GIF).decode(), "mimeType": "image/gif"}]),
        (Audio(b"fLaC"), [{"type": "audio", "data": "ZkxhQw==", "mimeType": "audio/flac"}]),
        (
            File("x", uri="a://b", mime_type="text/plain"),
            [{"type": "resource", "resource": {"uri": "a://b", "mimeType": "text/plain", "text": "x"}}],
        ),
        (File(b"x", uri="a://b"), [{"type": "resource", "resource": {"uri": "a://b", "blob": "eA=="}}]),
        (
            Link("a://b", "b", title="B", size=3),
            [{"type": "resource_link", "uri": "a://b", "name": "b", "title": "B", "size": 3}],
        ),
        (
            [
                Text("x", Annotations(audience=["user"], priority=0.5, last_modified="2025-01-01T00:00:00Z")),
                "y",
            ],
            [
                {
                    **text("x"),
                    "annotations": {
                        "audience": ["user"],
                        "priority": 0.5,
                        "lastModified": "2025-01-01T00:00:00Z",
                    },
                },
                text("y"),
            ],
        ),
        (ToolResult("x"), [text("x")]),
        (ToolResult([{"type": "text", "text": "raw"}]), [text("raw")]),
    ],
)
def test_value_becomes_content(value: Any, content: list[dict[str, Any]]) -> None:
    assert to_result(value, entry()) == {"content": content}


@pytest.mark.requirement("TOOL-16", "TOOL-17", "TOOL-18")
@pytest.mark.parametrize(
    ("returns", "value", "structured"),
    [
        (int, 3, {"result": 3}),
        (list[int], [1], {"result": [1]}),
        (int | None, None, {"result": None}),
        (Report, Report(rowCount=2), {"rowCount": 2}),
        (Report, {"rowCount": 2}, {"rowCount": 2}),
        (Size, Size(1, dt.date(2025, 1, 2)), {"width": 1, "at": "2025-01-02"}),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (Any, {"a": [1]}, {"a": [1]}),
        (Any, Size(1, dt.date(2025, 1, 2)), {"width": 1, "at": "2025-01-02"}),
        (Any, ToolResult(structured={"a": 1}), {"a": 1}),
        (Any, ToolResult(structured=[1]), {"result": [1]}),
    ],
)
def test_structured_content_is_object_and_its_json_is_text(
    returns: Any, value: Any, structured: dict[str, Any]
) -> None:
    result = to_result(value, entry(returns))
    assert result["structuredContent"] == structured
    assert orjson.loads(result["content"][0]["text"]) == structured
    assert "isError" not in result


@pytest.mark.requirement("TOOL-16", "TOOL-12")
@pytest.mark.parametrize(
    ("returns", "value", "complaint"),
    [
        (int, "x", "output schema (result: expected integer, got 'x')"),
        (float, math.nan, "it is nan"),
        (list[float], [1.0, math.inf], "[1] is inf"),
        (dict[str, float], {"mean": math.nan}, "mean is nan"),
        (Any, {"a": [{"b": -math.inf}]}, "a[0].b is -inf"),
        (Any, OrderedDict(mean=math.nan), "mean is nan"),
        (Any, ToolResult(structured={"mean": math.nan}), "mean is nan"),
        (Report, {"rows": 1}, "output schema"),
        (Report, ToolResult("no structure"), "output schema"),
        (Any, b"bytes", "Image, Audio or File"),
        *((Any, value, "Image, Audio or File") for value in NESTED_BYTES),
        (Any, Image(b""), "the image is empty"),
        (Any, Image(GIF, "image/png"), "the bytes are image/gif, the type is 'image/png': leave"),
        (Any, [Audio(b"<html>", "audio/wav")], "the bytes are text/html"),
        (Any, object(), "no JSON form"),
        (Any, 2**70, "cannot be sent"),
        (Any, File("x"), "needs a uri"),
        (Any, User(username="u", password="hash"), "chosen fields"),
        (Any, [User(username="u")], "chosen fields"),
        (Any, ToolResult([3]), "is not content"),
    ],
)
def test_unsendable_value_is_error_result(returns: Any, value: Any, complaint: str) -> None:
    result = to_result(value, entry(returns))
    assert result["isError"] is True
    assert complaint in result["content"][0]["text"]
    assert "hash" not in result["content"][0]["text"]


class Colour(Enum):
    RED = "red"


@pytest.mark.parametrize("returns", [Any, dict[str, Any], dict[str, str | None] | dict[str, Any]])
@pytest.mark.parametrize(
    "value",
    [
        {"plain": [1, 2.5, True, None, "ä", {"nested": []}]},
        {"colour": Colour.RED},
        {"id": UUID(int=7)},
        {"pair": (1, 2)},
        {"day": dt.date(2025, 11, 25)},
        {"size": Size(3, dt.date(2025, 11, 25))},
        {"lazy": gettext_lazy("Monday")},
        {"beyond 64 bits": 2**70},
        {3: "a key that is no text"},
        OrderedDict(b=1, a=2),
        {"half": "\ud800"},
    ],
    ids=repr,
)
def test_uncopied_value_encodes_like_its_plain_copy(returns: Any, value: Any) -> None:
    by_copy = to_result(OrderedDict(value), entry(returns))
    assert encode_result(1, to_result(value, entry(returns))) == encode_result(1, by_copy)


def test_enum_matches_schema_of_its_values() -> None:
    result = to_result({"colour": Colour.RED}, entry(dict[str, Colour]))
    assert result["content"] == [text('{"colour":"red"}')]
    assert encode_result(1, result).endswith(b'"structuredContent":{"colour":"red"}}}')


def test_error_result_needs_no_structured_content() -> None:
    assert to_result(ToolResult("broken", is_error=True, meta={"a": 1}), entry(Report)) == {
        "content": [text("broken")],
        "isError": True,
        "_meta": {"a": 1},
    }
    assert error_result("no") == {"content": [text("no")], "isError": True}


@pytest.mark.requirement("TOOL-24")
@pytest.mark.parametrize(
    "value", ["x" * 1001, Image(GIF + b"x" * 800), ["y" * 1001], "é" * 501, File("x" * 1001, uri="a:b")]
)
def test_result_above_size_limit_is_error(value: Any, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "MAX_RESULT_BYTES": 1000}
    result = to_result(value, entry())
    assert result["isError"]
    assert "too large" in result["content"][0]["text"]
    assert "isError" not in to_result("x" * 1000, entry(name="other"))


@pytest.mark.requirement("RES-14")
def test_binary_content_round_trips() -> None:
    data = GIF + bytes(range(256))
    assert b64decode(to_result(Image(data), entry())["content"][0]["data"], validate=True) == data
