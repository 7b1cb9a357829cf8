"""From type hints to JSON Schema, and from JSON arguments to keyword arguments."""

from __future__ import annotations

import asyncio
import datetime as dt
import functools
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, TypedDict

import pytest
from pydantic import AfterValidator, BaseModel, Field

from mcp_app.catalogue.definitions import input_schemas, signatures
from mcp_app.catalogue.definitions.definition import DefinitionError, InvalidArgumentsError
from mcp_app.catalogue.schemas import validation


class Colour(Enum):
    RED = "red"


class Point(BaseModel):
    x: int


@dataclass
class Box:
    side: int


class Options(TypedDict, total=False):
    deep: bool


class FakeContext:
    __mcp_context__ = True


def nothing() -> None: ...


def one_int(value: int) -> None: ...


def one_float(value: float = 1.0) -> None: ...


def one_text(value: str = "x") -> None: ...


def maybe_int(value: int | None = None) -> None: ...


def one_choice(value: Literal["a", "b"]) -> None: ...


def bounded(value: Annotated[int, Field(ge=1, description="how many")]) -> None: ...


def texts(value: list[str]) -> None: ...


def numbers(value: list[int]) -> None: ...


def anything(value: dict[str, Any]) -> None: ...


def dated(value: dt.date) -> None: ...


def coloured(value: Colour) -> None: ...


def located(value: Point) -> None: ...


def boxed(value: Box) -> None: ...


def optioned(value: Options) -> None: ...


def odd_names(json: str, copy: int, _hidden: str, schema: str) -> None: ...


def field_default(value: int = Field(5, ge=1)) -> None: ...


def with_context(ctx: FakeContext, value: str) -> None: ...


def with_optional_context(value: str, ctx: FakeContext | None = None) -> None: ...


def properties(function: Callable[..., Any]) -> dict[str, Any]:
    found: dict[str, Any] = input_schemas.input_schema(signatures.read(function))["properties"]
    return found


def bind(function: Callable[..., Any], **arguments: Any) -> dict[str, Any]:
    signature = signatures.read(function)
    schema = input_schemas.input_schema(signature)
    assert validation.compile_schema(schema).explain(arguments) == ""
    return input_schemas.binder(signature)(arguments)


@pytest.mark.requirement("TOOL-03")
def test_function_without_parameters_accepts_empty_closed_object() -> None:
    assert input_schemas.input_schema(signatures.read(nothing)) == {
        "type": "object",
        "additionalProperties": False,
    }


@pytest.mark.requirement("TOOL-02")
@pytest.mark.parametrize(
    ("function", "schema"),
    [
        (one_int, {"type": "integer"}),
        (one_float, {"type": "number", "default": 1.0}),
        (one_text, {"type": "string", "default": "x"}),
        (maybe_int, {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}),
        (one_choice, {"enum": ["a", "b"], "type": "string"}),
        (bounded, {"type": "integer", "minimum": 1, "description": "how many"}),
        (texts, {"type": "array", "items": {"type": "string"}}),
        (anything, {"type": "object", "additionalProperties": True}),
        (dated, {"type": "string", "format": "date"}),
        (field_default, {"type": "integer", "minimum": 1, "default": 5}),
        (located, {"$ref": "#/$defs/Point"}),
        (optioned, {"$ref": "#/$defs/Options"}),
    ],
)
def test_type_hint_becomes_json_schema(function: Callable[..., Any], schema: dict[str, Any]) -> None:
    assert properties(function)["value"] == schema


def test_parameters_without_default_are_required_and_schema_is_closed() -> None:
    schema = input_schemas.input_schema(signatures.read(with_optional_context))
    assert schema["required"] == ["value"]
    assert schema["additionalProperties"] is False
    assert "required" not in input_schemas.input_schema(signatures.read(one_text))


@pytest.mark.parametrize("function", [with_context, with_optional_context])
def test_context_parameter_is_hidden_from_schema(function: Callable[..., Any]) -> None:
    signature = signatures.read(function)
    assert signature.context_name == "ctx"
    assert list(properties(function)) == ["value"]


@pytest.mark.parametrize(
    ("function", "sent", "bound"),
    [
        (one_int, 1.0, 1),
        (one_int, 1, 1),
        (maybe_int, 2.0, 2),
        (maybe_int, None, None),
        (one_float, 1, 1.0),
        (one_text, "ä", "ä"),
        (numbers, [1.0], [1]),
        (dated, "2025-11-25", dt.date(2025, 11, 25)),
        (coloured, "red", Colour.RED),
        (located, {"x": 1}, Point(x=1)),
        (boxed, {"side": 2}, Box(2)),
        (optioned, {"deep": True}, {"deep": True}),
    ],
)
def test_json_value_is_converted_to_type_hint(function: Callable[..., Any], sent: Any, bound: Any) -> None:
    value = bind(function, value=sent)["value"]
    assert value == bound
    assert type(value) is type(bound)


def test_missing_arguments_are_filled_from_field_defaults_only() -> None:
    assert bind(one_text) == {}
    assert bind(field_default) == {"value": 5}


def test_binder_returns_new_dict() -> None:
    sent = {"value": "x"}
    for function in (one_text, texts, dated):
        value = (
            {"value": ["x"]} if function is texts else {"value": "2025-01-01"} if function is dated else sent
        )
        assert input_schemas.binder(signatures.read(function))(value) is not value


def test_parameter_names_reserved_by_pydantic_are_usable() -> None:
    arguments = {"json": "a", "copy": 1, "_hidden": "b", "schema": "c"}
    assert list(properties(odd_names)) == list(arguments)
    assert bind(odd_names, **arguments) == arguments


@pytest.mark.requirement("TOOL-10")
def test_value_rejected_by_pydantic_is_explained_with_path_and_value() -> None:
    binder = input_schemas.binder(signatures.read(dated))
    with pytest.raises(InvalidArgumentsError, match=r"^value: .*valid date.*, got 'soon'$"):
        binder({"value": "soon"})


def test_pydantic_validator_runs_during_binding() -> None:
    def refuse(value: str) -> str:
        raise ValueError("never right")

    def validated(value: Annotated[str, AfterValidator(refuse)]) -> None: ...

    validated.__annotations__["value"] = Annotated[str, AfterValidator(refuse)]
    with pytest.raises(InvalidArgumentsError, match="never right"):
        input_schemas.binder(signatures.read(validated))({"value": "x"})


def unhinted(value) -> None: ...  # type: ignore[no-untyped-def]


def positional(value: int, /) -> None: ...


def starred(*values: int) -> None: ...


def unresolved(value: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821


def two_contexts(a: FakeContext, b: FakeContext) -> None: ...


def generating(value: int) -> Any:
    yield value


class Shelf:
    def tidy(self, number: int) -> None: ...


def indescribable(value: Callable[[], int]) -> None: ...


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        (unhinted, "parameter 'value' needs a type hint"),
        (Shelf.tidy, "a method has no object to work on"),
        (positional, "parameter 'value' must be usable by keyword"),
        (starred, "parameter 'values' must be usable by keyword"),
        (unresolved, "type hint 'Missing' cannot be resolved"),
        (two_contexts, "takes the context twice"),
        (generating, "generators are not supported"),
        (Point, "only functions can be decorated"),
        (indescribable, "has no JSON Schema"),
    ],
)
def test_unusable_signature_raises_definition_error_with_function_name(
    function: Callable[..., Any], complaint: str
) -> None:
    with pytest.raises(DefinitionError) as caught:
        input_schemas.input_schema(signatures.read(function))
    assert complaint in str(caught.value)
    assert f"test_signatures.{function.__qualname__}: " in str(caught.value)


async def asynchronous() -> None: ...


class Awaited:
    async def __call__(self, value: int) -> None: ...


@pytest.mark.parametrize(
    ("function", "is_async"),
    [(nothing, False), (asynchronous, True), (functools.partial(asynchronous), True), (Awaited(), True)],
)
def test_async_functions_are_detected(function: Callable[..., Any], is_async: bool) -> None:
    assert signatures.read(function).is_async is is_async


async def _returns() -> str:
    return "at once"


async def _awaits() -> str:
    await asyncio.sleep(0)
    return "later"


async def _iterates(source: Any = None) -> list[Any]:
    return [item async for item in source]


async def _enters(guard: Any = None) -> None:
    async with guard:
        pass


def _plain() -> str:
    return "in a thread"


@pytest.mark.parametrize(
    ("function", "expected"),
    [(_returns, True), (_awaits, False), (_iterates, False), (_enters, False), (_plain, False), (len, False)],
)
def test_never_waits_is_true_for_async_code_without_await_only(function: Any, expected: bool) -> None:
    assert signatures.never_waits(function) is expected
