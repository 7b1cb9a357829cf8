"""Names and values of JSON objects, read without building values."""

from __future__ import annotations

import pytest

from mcp_app.interface.text import members


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{}", []),
        ('{"a":1e400,"b":0.10}', [("a", "1e400"), ("b", "0.10")]),
        ('{"a": {"b": [1, {"c": 2}]}, "d": []}', [("a", '{"b":[1,{"c":2}]}'), ("d", "[]")]),
        ('{"a,b:{":"x, {y}: [z]"}', [("a,b:{", '"x, {y}: [z]"')]),
        ('{"amount":1,"amount":1000}', [("amount", "1"), ("amount", "1000")]),
        ('{"a":"\\u0041\\n\\""}', [("a", '"\\u0041\\n\\""')]),
        ('{"a":' + "[" * 5_000 + "]" * 5_000 + "}", [("a", "[" * 5_000 + "]" * 5_000)]),
    ],
)
def test_members_are_returned_as_written(text: str, found: list[tuple[str, str]]) -> None:
    assert members(text) == found


@pytest.mark.parametrize(
    "text", ["", "[1]", '"a"', '{"a":1', '{"a"}', "{a:1}", '{"a":}', '{"a":[1}', "{,}", "{1:2}"]
)
def test_other_texts_have_no_members(text: str) -> None:
    assert members(text) is None
