from __future__ import annotations

from typing import Any

import pytest

from mcp_app.protocol.errors import InvalidParams
from mcp_app.protocol.messages import meta


@pytest.mark.requirement("META-08")
def test_meta_is_returned_unchanged() -> None:
    value = {"x/y": [1], "": None}
    assert meta.of({"_meta": value}) is value
    assert meta.of({}) == {}


@pytest.mark.parametrize("value", [None, [], "x", 1])
def test_meta_other_than_object_is_rejected(value: Any) -> None:
    with pytest.raises(InvalidParams, match="_meta"):
        meta.of({"_meta": value})


@pytest.mark.requirement("META-07")
@pytest.mark.parametrize(
    "key",
    ["a", "a.b", "A_b-c.9", "9", "example.com/a", "a/b", "a-b.c9/d", "com.example.x/y.z_0"],
)
def test_key_within_grammar_is_valid(key: str) -> None:
    assert meta.is_valid_key(key)


@pytest.mark.requirement("META-07")
@pytest.mark.parametrize(
    "key",
    [
        "",
        "/",
        "/a",
        "a/",
        "-a",
        "a-",
        "_a",
        "a.",
        "a b",
        "a/b/c",
        "9a/b",
        "a-/b",
        "-a/b",
        "a..b/c",
        ".a/b",
        "a_b/c",
        "ä",
        "a\n",
        "a" * 600,
    ],
)
def test_key_outside_grammar_is_invalid(key: str) -> None:
    assert not meta.is_valid_key(key)


@pytest.mark.requirement("META-07")
@pytest.mark.parametrize(
    ("key", "reserved"),
    [
        ("io.modelcontextprotocol/logLevel", True),
        ("dev.mcp/x", True),
        ("com.mcp.tools/x", True),
        ("mcp.dev/x", True),
        ("tools.mcp.com/x", True),
        ("api.modelcontextprotocol.org/x", True),
        ("IO.ModelContextProtocol/x", True),
        ("progressToken", True),
        ("traceparent", True),
        ("com.example.mcp/x", False),
        ("mcp/x", False),
        ("example.com/mcp", False),
        ("mymcp.example/x", False),
        ("mcp", False),
    ],
)
def test_protocol_prefixes_are_reserved(key: str, reserved: bool) -> None:
    assert meta.is_reserved_key(key) is reserved


@pytest.mark.parametrize(
    ("key", "problem"), [("a b", "not a valid"), ("io.mcp/x", "reserved"), ("baggage", "reserved")]
)
def test_invalid_own_key_is_rejected_with_reason(key: str, problem: str) -> None:
    meta.check_own_keys(["example.com/fine"])
    with pytest.raises(ValueError, match=problem):
        meta.check_own_keys(["example.com/fine", key])
