"""From Python types to flat form schemas of every revision, and back to typed values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, TypedDict

import pytest
from pydantic import BaseModel, Field

from mcp_app.catalogue.definitions.content import ToolError
from mcp_app.execution.questions.questions import Answer, Form
from mcp_app.protocol.features import elicitation


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


class Order(BaseModel):
    """An order."""

    name: str = Field(min_length=1, max_length=20, title="Name", description="Who is it for?")
    size: Size
    count: int = Field(default=1, ge=1, le=9)
    price: float | None = None
    gift: bool = False


@dataclass
class Point:
    x: int
    y: int = 0


class Note(TypedDict, total=False):
    text: str


VALUE = "value"


@pytest.mark.requirement("ELI-03")
@pytest.mark.parametrize(
    ("kind", "member"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (Size, {"type": "string", "enum": ["s", "l"]}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal["only"], {"type": "string", "enum": ["only"]}),
    ],
)
def test_simple_type_becomes_form_with_one_member(kind: Any, member: dict[str, Any]) -> None:
    schema = Form(kind).schema
    assert schema["required"] == [VALUE]
    found = schema["properties"][VALUE]
    assert {name: found[name] for name in member} == member
    elicitation.check_form(schema)


def test_model_becomes_flat_form() -> None:
    schema = Form(Order).schema
    elicitation.check_form(schema)
    members = schema["properties"]
    assert list(members) == ["name", "size", "count", "price", "gift"]
    assert members["name"] == {
        "type": "string",
        "title": "Name",
        "description": "Who is it for?",
        "minLength": 1,
        "maxLength": 20,
    }
    assert members["size"]["enum"] == ["s", "l"]
    assert [members["count"][bound] for bound in ("minimum", "maximum", "default")] == [1, 9, 1]
    assert members["price"]["type"] == "number"
    assert "default" not in members["price"]
    assert members["gift"]["default"] is False
    assert sorted(schema["required"]) == ["name", "size"]
    assert "$defs" not in schema


@pytest.mark.parametrize(("kind", "names"), [(Point, ["x", "y"]), (Note, ["text"])])
def test_dataclass_or_typed_dict_becomes_form(kind: Any, names: list[str]) -> None:
    schema = Form(kind).schema
    elicitation.check_form(schema)
    assert list(schema["properties"]) == names


class Choice(BaseModel):
    sizes: list[Size]
    colours: Annotated[list[Literal["red", "blue"]], Field(min_length=1, max_length=2)]


def test_list_of_choices_becomes_multiple_choice() -> None:
    schema = Form(Choice).schema
    elicitation.check_form(schema)
    assert schema["properties"]["sizes"]["items"]["enum"] == ["s", "l"]
    colours = schema["properties"]["colours"]
    assert (colours["items"]["enum"], colours["minItems"], colours["maxItems"]) == (["red", "blue"], 1, 2)


class Nested(BaseModel):
    point: Point


class Loose(BaseModel):
    anything: Any


class Mixed(BaseModel):
    either: int | str


@pytest.mark.requirement("ELI-03")
@pytest.mark.parametrize("kind", [Nested, Loose, Mixed, list[str], dict[str, int]])
def test_unsupported_type_is_rejected_as_form(kind: Any) -> None:
    with pytest.raises(ValueError, match="form"):
        elicitation.check_form(Form(kind).schema)


def test_schema_form_and_its_answer_stay_unchanged() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    form = Form(schema)
    assert form.schema is schema
    assert form.read({"n": 1, "more": 2}) == {"n": 1, "more": 2}


@pytest.mark.parametrize(
    ("kind", "content", "value"),
    [
        (str, {VALUE: "x"}, "x"),
        (int, {VALUE: 3}, 3),
        (float, {VALUE: 3}, 3.0),
        (bool, {VALUE: False}, False),
        (Size, {VALUE: "l"}, Size.LARGE),
        (Literal["a", "b"], {VALUE: "b"}, "b"),
        (Order, {"name": "n", "size": "s"}, Order(name="n", size=Size.SMALL)),
        (Point, {"x": 1}, Point(1)),
        (Note, {}, {}),
    ],
)
def test_answer_is_converted_to_type(kind: Any, content: dict[str, Any], value: Any) -> None:
    found = Form(kind).read(content)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.requirement("ELI-05")
@pytest.mark.parametrize(
    ("kind", "content", "where"),
    [
        (int, {VALUE: "x"}, "value: "),
        (int, {}, "value: "),
        (Order, {"name": "", "size": "s"}, "name: "),
        (Order, {"name": "n", "size": "xl"}, "size: "),
        (Point, {"y": 1}, "x: "),
    ],
)
def test_invalid_answer_names_its_member(kind: Any, content: dict[str, Any], where: str) -> None:
    with pytest.raises(ToolError, match=f"does not fit the form: {where}"):
        Form(kind).read(content)


@pytest.mark.parametrize(
    ("answer", "is_true"),
    [
        (Answer("accept"), True),
        (Answer("accept", {}, None), True),
        (Answer("accept", {VALUE: True}, True), True),
        (Answer("accept", {VALUE: False}, False), False),
        (Answer("accept", {VALUE: 0}, 0), True),
        (Answer("accept", {VALUE: ""}, ""), True),
        (Answer("decline"), False),
        (Answer("cancel"), False),
        (Answer("decline", {}, True), False),
    ],
)
def test_answer_is_truthy_if_accepted_with_true_value(answer: Answer, is_true: bool) -> None:
    assert bool(answer) is is_true
