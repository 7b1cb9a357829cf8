"""The modules of the test bench in isolation, in a real browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import Visit

READ = """async ([chunks]) => {
  const { events } = await import("/static/mcp_app/bench/event_stream.js");
  const body = new ReadableStream({ start(control) {
    for (const chunk of chunks) control.enqueue(new Uint8Array(chunk));
    control.close();
  } });
  const found = [];
  for await (const event of events(body)) found.push([event.id ?? null, event.retry ?? null, event.data]);
  return found;
}"""
STREAM = ": hi\n\nid: a\ndata:\n\r\ndata: é😀\ndata: two\r\nid: b\r\rretry: 50\n\ndata:x\n\ndata: cut"
EVENTS = [["a", None, ""], ["b", None, "é😀\ntwo"], [None, 50, ""], [None, None, "x"]]


@pytest.fixture
def page(visit: Visit) -> Iterator[Page]:
    """Open a page of the site."""
    visitor = visit()
    yield visitor.goto("/admin/")
    assert visitor.trouble == []


def test_event_stream_parser_handles_any_chunking(page: Page) -> None:
    encoded = STREAM.encode()
    for size in (1, 2, 3, 7, 1000):
        chunks = [list(encoded[start : start + size]) for start in range(0, len(encoded), size)]
        assert page.evaluate(READ, [chunks]) == EVENTS, size


ITSELF: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}},
    "required": ["a", "b"],
}
SCHEMAS: list[Any] = [
    None,
    True,
    "x",
    [],
    {"$ref": "#"},
    {"$ref": "#/$defs/x", "$defs": {"x": {"$ref": "#/$defs/y"}, "y": {"$ref": "#/$defs/x"}}},
    {"properties": {"a": {"$ref": "https://elsewhere/"}, "b": {"$ref": "#/nothing/%ff/~1"}}},
    {"allOf": [{"$ref": "#"}, {"$ref": "#"}]},
    {
        "properties": {"a": {"anyOf": [{"$ref": "#/properties/a"}, {"$ref": "#/properties/a"}]}},
        "required": ["a"],
    },
    ITSELF,
    {"properties": {"a": {"enum": []}, "b": {"oneOf": []}, "c": {"type": 7, "minLength": "x"}, "d": None}},
    {"properties": [1], "required": "a"},
    {"properties": {"a": {"type": "array", "minItems": 1e9, "items": {"type": "string"}}}, "required": ["a"]},
    {"properties": {str(number): {"type": "string"} for number in range(500)}},
]


def test_form_of_any_schema_is_fast_and_keeps_its_value(page: Page) -> None:
    given = {"a": {"deep": [1, None]}, "other": "x"}
    for schema in SCHEMAS:
        kept, milliseconds = page.evaluate(
            """async ([schema, given]) => {
              const { Form } = await import("/static/mcp_app/bench/form.js");
              const started = performance.now();
              const form = new Form(schema);
              form.get();
              form.set(given);
              return [form.get(), performance.now() - started];
            }""",
            [schema, given],
        )
        assert {**given, **kept} == kept, schema
        assert milliseconds < 3_000, schema


VALUES: list[tuple[dict[str, Any], Any]] = [
    ({"type": "string"}, ""),
    ({"type": "string"}, "two\nlines\t\u202e"),
    ({"type": "string", "format": "date"}, "no date"),
    ({"type": "string", "format": "email"}, "  a@b  "),
    ({"type": "string"}, 7),
    ({"type": "integer"}, 0),
    ({"type": "integer"}, "seven"),
    ({"type": "number"}, 1e300),
    ({"type": "boolean"}, False),
    ({"type": "boolean"}, None),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, None),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}, None),
    ({"type": ["string", "integer"]}, 5),
    ({"type": ["string", "null"]}, None),
    ({"enum": [1, "1", None, {"a": 1}]}, {"a": 1}),
    ({"enum": ["a"]}, "b"),
    ({"enum": ["a"]}, "a"),
    ({"oneOf": [{"const": 1, "title": "one"}, {"const": 2}]}, 2),
    ({"const": 5}, 5),
    ({"const": 5}, 6),
    ({"type": "array", "items": {"enum": ["a", "b"]}}, ["b", "a"]),
    ({"type": "array", "items": {"enum": ["a", "b"]}}, ["a", "a"]),
    ({"type": "array", "items": {"type": "string"}}, []),
    ({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]}, [1, "a", None]),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 1, "__proto__": 2}),
    ({"type": "object"}, {"free": [1]}),
    ({"type": "object", "properties": {"x": {"type": "string"}}}, {}),
    ({"oneOf": [{"properties": {"k": {"const": 1}}, "required": ["k"]}, {"type": "array"}]}, [1]),
    ({"type": "object", "properties": {"x": {"$ref": "#/properties/v"}}}, {"x": {"x": {}}}),
]


def test_required_choice_of_one_value_is_preselected(page: Page) -> None:
    """Discriminators of generated schemas are such choices."""
    kind = {"type": "string", "enum": ["card"]}
    made = page.evaluate(
        """async (kind) => {
          const { Form } = await import("/static/mcp_app/bench/form.js");
          const form = (required) => new Form({ type: "object", properties: { kind }, required }).get();
          return [form(["kind"]), form([])];
        }""",
        kind,
    )
    assert made == [{"kind": "card"}, {}]


def test_form_returns_the_value_it_was_given(page: Page) -> None:
    lost = page.evaluate(
        """async (cases) => {
          const { Form } = await import("/static/mcp_app/bench/form.js");
          const lost = ([member, value, required]) => {
            const form = new Form({ type: "object", properties: { v: member }, required });
            form.set(JSON.parse(value)); // Which makes "__proto__" a member, as the page does.
            return JSON.stringify(form.get().v) !== JSON.stringify(JSON.parse(value).v);
          };
          return cases.filter(lost);
        }""",
        [
            [member, json.dumps({"v": value}), required]
            for member, value in VALUES
            for required in (["v"], [])
        ],
    )
    assert lost == []


PAIRS: list[tuple[str, str, Any]] = [
    ("", "", []),
    ("a b c", "a b c", []),
    ("a b c", "a x c", [["b", "x"]]),
    ("a b c", "a c", [["b", None]]),
    ("b c d", "a b c d", [[None, "a"]]),
    ("a b", "c d e", [["a", "c"], ["b", "d"], [None, "e"]]),
]


def test_comparison_aligns_different_lines(page: Page) -> None:
    for one, other, expected in PAIRS:
        found = page.evaluate(
            """async ([one, other]) => {
              const { pairs } = await import("/static/mcp_app/bench/comparison.js");
              return pairs(one, other).filter(([left, right]) => left !== right);
            }""",
            [one.split(), other.split()],
        )
        assert found == expected, (one, other)
