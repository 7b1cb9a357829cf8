from __future__ import annotations

from typing import Any

import pytest

from mcp_app.protocol.http import param_headers
from mcp_app.protocol.http.param_headers import MAX_SAFE_INTEGER, mismatch, read

X = "x-mcp-header"
TEXT = {"type": "string"}


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def annotated(name: Any = "Region", kind: Any = "string", **more: Any) -> dict[str, Any]:
    return {"type": kind, X: name, **more}


@pytest.mark.requirement("XMH-01", "XMH-13")
def test_annotations_are_found_along_properties() -> None:
    where = {"type": "object", "properties": {"zone": annotated("Zone")}}
    found = read(schema(region=annotated(), count=annotated("Count", "integer"), place=where, note=TEXT))
    assert [(header.field, header.name, header.path) for header in found] == [
        (b"mcp-param-region", "Mcp-Param-Region", ("region",)),
        (b"mcp-param-count", "Mcp-Param-Count", ("count",)),
        (b"mcp-param-zone", "Mcp-Param-Zone", ("place", "zone")),
    ]
    zone = found[2]
    assert zone.value({"place": {"zone": "a"}}) == "a"
    for without in ({}, {"place": None}, {"place": {}}, {"place": "a"}, {"zone": "a"}):
        assert zone.value(without) is None


def test_schema_without_annotations_has_no_headers() -> None:
    assert read({"type": "object"}) == ()
    assert read(schema(**{X: TEXT})) == (), "a property of that name is no annotation"
    assert read(schema(kind={"enum": [{X: "A"}], "default": {X: "A"}})) == ()


@pytest.mark.requirement("XMH-02")
@pytest.mark.parametrize("name", ["", "a b", "a:b", "a\n", "ü", 7, None, {"a": 1}, "a" + chr(0)])
def test_invalid_header_name_is_rejected(name: Any) -> None:
    with pytest.raises(ValueError, match="must be a header name"):
        read(schema(region=annotated(name)))


@pytest.mark.requirement("XMH-02")
def test_header_name_may_contain_every_token_character() -> None:
    (found,) = read(schema(region=annotated("!#$%&'*+-.^_`|~09azAZ")))
    assert found.field == b"mcp-param-!#$%&'*+-.^_`|~09azaz"


@pytest.mark.requirement("XMH-03")
def test_names_differing_only_in_case_are_rejected() -> None:
    nested = {"type": "object", "properties": {"b": annotated("region")}}
    for second in (annotated("region"), nested):
        with pytest.raises(ValueError, match="more than one property"):
            read(schema(a=annotated("Region"), b=second))


@pytest.mark.requirement("XMH-04")
@pytest.mark.parametrize("kind", ["number", "array", "object", "null", ["string", "null"], None, 7])
def test_type_without_canonical_spelling_is_rejected(kind: Any) -> None:
    with pytest.raises(ValueError, match="needs the type integer, string or boolean"):
        read(schema(region=annotated("Region", kind)))


@pytest.mark.requirement("XMH-05")
@pytest.mark.parametrize(
    "wrong",
    [
        {X: "Region", "type": "object"},
        schema(places={"type": "array", "items": annotated()}),
        schema(place={"type": "object", "additionalProperties": annotated()}),
        schema(place={"oneOf": [annotated(), TEXT]}),
        schema(place={"anyOf": [schema(region=annotated())]}),
        {**schema(), "allOf": [schema(region=annotated())]},
        {**schema(), "not": annotated()},
        {**schema(), "if": schema(a=annotated()), "then": {}},
        {**schema(), "else": schema(a=annotated())},
        {**schema(region={"$ref": "#/$defs/region"}), "$defs": {"region": annotated()}},
        {**schema(), "patternProperties": {"^a": annotated()}},
        {**schema(), "dependentSchemas": {"a": schema(b=annotated())}},
    ],
)
def test_annotation_outside_properties_is_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=X):
        read(wrong)


@pytest.mark.requirement("XMH-11")
@pytest.mark.parametrize(
    ("key", "name", "more"),
    [
        ("password", "Region", {}),
        ("region", "Api-Key", {}),
        ("access_token", "Region", {}),
        ("region", "Region", {"format": "password"}),
        ("region", "Region", {"writeOnly": True}),
    ],
)
def test_secret_like_argument_is_rejected_as_header(key: str, name: str, more: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="looks like a secret"):
        read(schema(**{key: annotated(name, **more)}))
    assert read(schema(max_tokens=annotated("Max-Tokens", "integer")))


HEADERS = read(
    schema(
        region=annotated(),
        count=annotated("Count", "integer"),
        dry=annotated("Dry", "boolean"),
        place={"type": "object", "properties": {"zone": annotated("Zone")}},
    )
)


@pytest.mark.requirement("XMH-07", "XMH-08", "XMH-09", "XMH-10", "XMH-13")
@pytest.mark.parametrize(
    ("sent", "arguments"),
    [
        ({}, {}),
        ({}, {"region": None, "place": {"zone": None}}),
        ({"region": b"eu"}, {"region": "eu"}),
        ({"region": b" eu\t"}, {"region": "eu"}),
        ({"region": b"=?base64?w7w=?="}, {"region": "ü"}),
        ({"region": b""}, {"region": ""}),
        ({"count": b"42"}, {"count": 42}),
        ({"count": b"42.0"}, {"count": 42}),
        ({"count": b"42"}, {"count": 42.0}),
        ({"count": b"-7"}, {"count": -7}),
        ({"count": b"0"}, {"count": 0}),
        ({"count": b"%d" % MAX_SAFE_INTEGER}, {"count": MAX_SAFE_INTEGER}),
        ({"dry": b"true"}, {"dry": True}),
        ({"dry": b"false"}, {"dry": False}),
        ({"zone": b"a"}, {"place": {"zone": "a"}}),
        ({"other": b"ignored"}, {}),
    ],
)
def test_headers_equal_to_arguments_match(sent: dict[str, bytes], arguments: dict[str, Any]) -> None:
    fields = {b"mcp-param-" + name.encode(): value for name, value in sent.items()}
    assert mismatch(HEADERS, fields, arguments) is None


@pytest.mark.requirement("XMH-07", "XMH-08", "XMH-09", "HDR-13")
@pytest.mark.parametrize(
    ("sent", "arguments", "words"),
    [
        ({}, {"region": "eu"}, "Mcp-Param-Region is missing"),
        ({}, {"place": {"zone": "a"}}, "Mcp-Param-Zone is missing"),
        ({"region": b"eu"}, {}, "without its argument"),
        ({"region": b"eu"}, {"region": None}, "without its argument"),
        ({"zone": b"a"}, {"place": {}}, "without its argument"),
        ({"region": b"us"}, {"region": "eu"}, "Mcp-Param-Region is 'us', but region in the body is 'eu'"),
        ({"region": b"EU"}, {"region": "eu"}, "in the body"),
        ({"region": b"\xff, eu"}, {"region": "eu"}, "not validly encoded"),
        ({"region": b"=?base64?ZXU?="}, {"region": "eu"}, "not validly encoded"),
        ({"region": b"7"}, {"region": 7.5}, "in the body"),
        ({"region": b"[]"}, {"region": []}, "in the body"),
        ({"count": b"4.2e1"}, {"count": 42}, "in the body"),
        ({"count": b"+42"}, {"count": 42}, "in the body"),
        ({"count": b"042"}, {"count": 42}, "in the body"),
        ({"count": b"0x2a"}, {"count": 42}, "in the body"),
        ({"count": b"42.5"}, {"count": 42}, "in the body"),
        ({"count": b"43"}, {"count": 42}, "in the body"),
        ({"count": b"9" * 70}, {"count": 42}, "in the body"),
        ({"count": b"%d" % 2**53}, {"count": 2**53}, "in the body"),
        ({"dry": b"True"}, {"dry": True}, "in the body"),
        ({"dry": b"1"}, {"dry": True}, "in the body"),
        ({"count": b"1"}, {"count": True}, "in the body"),
    ],
)
def test_missing_or_different_header_is_reported(
    sent: dict[str, bytes], arguments: dict[str, Any], words: str
) -> None:
    fields = {b"mcp-param-" + name.encode(): value for name, value in sent.items()}
    assert words in (mismatch(HEADERS, fields, arguments) or "")


def test_mismatch_message_of_long_value_is_short() -> None:
    told = mismatch(HEADERS, {param_headers.PREFIX + b"region": b"x" * 9000}, {"region": "y" * 9000})
    assert told is not None
    assert len(told) < 250
