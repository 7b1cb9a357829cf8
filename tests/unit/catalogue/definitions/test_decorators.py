"""Registration by decorators, and the definitions they reject."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import Annotated, Any, Literal

import pytest
from django.contrib.auth.models import Group
from django.test import override_settings
from django.utils.translation import gettext_lazy, override
from pydantic import BaseModel, Field

from mcp_app import Context, prompt, resource, tool
from mcp_app.catalogue.definitions.definition import DefinitionError
from mcp_app.catalogue.definitions.registry import Registry

CONFORMANCE_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


@pytest.mark.requirement("TOOL-02", "TOOL-19")
def test_bare_decorator_derives_definition_from_function(registered: Registry) -> None:
    @tool
    def get_total(first: int, second: int = 2) -> int:
        """Add two numbers."""
        return first + second

    assert get_total(1) == 3
    definition = registered.tools["get_total"]
    assert definition.wire == {
        "name": "get_total",
        "title": "Get total",
        "description": "Add two numbers.",
        "inputSchema": {
            "type": "object",
            "properties": {"first": {"type": "integer"}, "second": {"type": "integer", "default": 2}},
            "required": ["first"],
            "additionalProperties": False,
        },
        "outputSchema": {
            "type": "object",
            "properties": {"result": {"type": "integer"}},
            "required": ["result"],
        },
    }
    assert definition.code_path.endswith("get_total")
    assert definition.wraps_result


@pytest.mark.requirement("TOOL-19", "ICON-01", "TITLE-01")
def test_decorator_options_override_function(registered: Registry) -> None:
    @tool(
        name="sum.of-two", title="Sum", description="Adds.", read_only=True, destructive=False,
        idempotent=True, open_world=False, icons=["https://example.com/i.png"], meta={"example.com/a": 1},
        tags={"b", "a"}, permission="app.use", timeout=3, background=True, calls_per_minute=5,
    )  # fmt: skip
    def function(ctx: Context) -> str:
        """Unused."""
        return ""

    definition = registered.tools["sum.of-two"]
    assert definition.wire["annotations"] == {
        "readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False,
    }  # fmt: skip
    assert definition.wire["icons"] == [{"src": "https://example.com/i.png"}]
    assert definition.wire["_meta"] == {"example.com/a": 1, "tags": ["a", "b"]}
    assert (definition.wire["title"], definition.wire["description"]) == ("Sum", "Adds.")
    assert (definition.permission, definition.timeout, definition.calls_per_minute) == ("app.use", 3, 5)
    assert definition.background
    assert definition.function.context_name == "ctx"


@pytest.mark.requirement("SCHEMA-02")
def test_custom_input_schema_is_kept_and_arguments_are_passed_unchanged(registered: Registry) -> None:
    @tool(input_schema=CONFORMANCE_SCHEMA)
    def contact(**arguments: Any) -> str:
        return str(arguments)

    definition = registered.tools["contact"]
    assert definition.wire["inputSchema"] == CONFORMANCE_SCHEMA
    assert definition.function.bind({"name": "x", "email": 1.0}) == {"name": "x", "email": 1.0}


def test_function_without_var_keywords_receives_only_named_arguments(registered: Registry) -> None:
    @tool(input_schema={"type": "object", "properties": {"a": {}}})
    def loose(a: Any = None) -> None: ...

    assert registered.tools["loose"].function.bind({"a": 1, "other": 2}) == {"a": 1}


@pytest.mark.requirement("TOOL-18")
def test_non_object_output_schema_is_wrapped(registered: Registry) -> None:
    @tool(output_schema={"type": "array", "items": {"type": "integer"}})
    def numbers() -> Any: ...

    definition = registered.tools["numbers"]
    assert definition.wraps_result
    assert definition.wire["outputSchema"]["properties"]["result"]["type"] == "array"


def plain(a: str = "") -> str:
    return a


def required(a: str) -> str:
    return a


def anything(**arguments: Any) -> str:
    return ""


@pytest.mark.requirement("TOOL-06", "SCHEMA-01", "SCHEMA-03", "ICON-02")
@pytest.mark.parametrize(
    ("function", "options", "complaint"),
    [
        (plain, {"name": "no spaces"}, "Use only A-Z, a-z"),
        (plain, {"name": "x" * 129}, "at most 128"),
        (lambda: None, {}, "Use only A-Z, a-z"),
        (plain, {"permission": "admin"}, "app_label.codename"),
        (plain, {"timeout": 0}, "timeout is in seconds"),
        (plain, {"calls_per_minute": 0}, "calls_per_minute must be positive"),
        (plain, {"icons": ["javascript:alert(1)"]}, "https:"),
        (plain, {"icons": [{"src": "file:///x"}]}, "https:"),
        (plain, {"meta": {"io.modelcontextprotocol/x": 1}}, "reserved"),
        (plain, {"tags": "one"}, "tags is a list"),
        (anything, {}, "needs an input_schema"),
        (plain, {"input_schema": {"type": "array"}}, '"type": "object"'),
        (plain, {"input_schema": {"type": "object", "properties": {"b": {}}}}, "takes no parameter 'b'"),
        (required, {"input_schema": {"type": "object", "properties": {"a": {}}}}, "'a' needs a default"),
        (anything, {"input_schema": {"type": "object", "$schema": "urn:mine"}}, "dialect 'urn:mine'"),
        (anything, {"input_schema": {"type": "object", "$ref": "https://example.com/s"}}, "leads outside"),
        (anything, {"input_schema": {"type": "object", "minimum": "x"}}, "not a usable JSON Schema"),
        (plain, {"output_schema": {"type": "object", "required": 1}}, "outputSchema"),
    ],
)
def test_invalid_tool_is_rejected_at_registration(
    registered: Registry, function: Callable[..., Any], options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(DefinitionError) as caught:
        tool(**options)(function)
    assert complaint in str(caught.value)
    assert f"test_decorators.{function.__qualname__}" in str(caught.value)
    assert not registered.tools


@pytest.mark.parametrize("decorator", [tool, prompt, partial(resource, "notes://x")])
def test_unknown_option_is_rejected_by_name(registered: Registry, decorator: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match=r"unknown option 'tittle'.* 'title'"):
        decorator(tittle="Notes")(plain)
    assert registered == Registry()


@pytest.mark.requirement("TOOL-06")
def test_duplicate_name_is_rejected_but_same_function_may_reregister(registered: Registry) -> None:
    tool(name="same")(plain)
    tool(name="same")(plain)
    with pytest.raises(DefinitionError, match=r"already a tool 'same', defined by .*plain"):
        tool(name="same")(required)
    assert list(registered.tools) == ["same"]


@pytest.mark.requirement("PROMPT-01")
def test_prompt_lists_its_arguments(registered: Registry) -> None:
    @prompt(completions={"language": ["python", "go"]})
    def review(code: str, language: str = "python", style: Literal["short", "long"] = "short") -> str:
        """Review code.

        Args:
            code: what to review
        """
        return code

    definition = registered.prompts["review"]
    assert definition.wire == {
        "name": "review",
        "title": "Review",
        "description": "Review code.",
        "arguments": [
            {"name": "code", "description": "what to review", "required": True},
            {"name": "language"},
            {"name": "style"},
        ],
    }
    assert definition.completions == {"language": ["python", "go"], "style": ("short", "long")}
    assert definition.choices == {"style": ("short", "long")}


def numeric(count: int) -> str:
    return ""


@pytest.mark.requirement("PROMPT-04")
@pytest.mark.parametrize(
    ("function", "options", "complaint"),
    [
        (numeric, {}, "prompt arguments are strings"),
        (anything, {}, "names its arguments"),
        (plain, {"name": "a b"}, "Use only A-Z, a-z"),
        (plain, {"completions": {"b": []}}, "no argument"),
        (plain, {"completions": {"a": "abc"}}, "list of str or a function"),
        (plain, {"completions": {"a": [1]}}, "list of str or a function"),
    ],
)
def test_invalid_prompt_is_rejected(
    function: Callable[..., Any], options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(DefinitionError, match=complaint):
        prompt(**options)(function)


@pytest.mark.requirement("RES-01", "TPL-01")
def test_uri_with_variables_registers_template_and_without_resource(registered: Registry) -> None:
    @resource("notes://today", mime_type="text/markdown", size=3, annotations={"priority": 1})
    def today() -> str:
        return "abc"

    @resource("notes://{year}/{+path}", name="Notes")
    def note(path: str, year: int) -> str:
        return path

    assert registered.resources["notes://today"].wire == {
        "uri": "notes://today", "name": "today", "title": "Today", "mimeType": "text/markdown", "size": 3,
        "annotations": {"priority": 1},
    }  # fmt: skip
    template = registered.templates["notes://{year}/{+path}"]
    assert template.wire["uriTemplate"] == "notes://{year}/{+path}"
    assert template.wire["name"] == "Notes"
    assert template.function.bind({"year": "2025", "path": "a/b"}) == {"year": 2025, "path": "a/b"}


@pytest.mark.requirement("RES-07")
@pytest.mark.parametrize(
    ("uri", "function", "complaint"),
    [
        ("not a uri", plain, "scheme"),
        ("notes://{a", plain, "only {name} and {\\+path}"),
        ("notes://{b}", plain, "the function does not"),
        ("notes://x", required, "'a' is not a variable"),
        (required, plain, "needs a URI"),
    ],
)
def test_invalid_resource_is_rejected(uri: Any, function: Callable[..., Any], complaint: str) -> None:
    with pytest.raises(DefinitionError, match=complaint):
        resource(uri)(function)


class Colour(Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("hint", "default", "said"),
    [
        (int, "a", r"the default 'a' of parameter 'x' does not fit its type hint: .* integer"),
        (int, None, r"the default None of parameter 'x' .* Add None to the hint\."),
        (int, "5", r"it would have to be 5\."),
        (date, "2026-01-01", r"it would have to be datetime\.date"),
        (Colour, "red", r"it would have to be <Colour\.RED"),
        (Annotated[int, Field(ge=1)], 0, r"greater than or equal to 1"),
        (int, Field("x"), r"the default 'x' of parameter 'x'"),
        (list[int], ["x"], r"valid integer"),
    ],
)
def test_default_violating_type_hint_is_rejected(
    registered: Registry, hint: Any, default: Any, said: str
) -> None:
    def take(x: Any = default) -> str:
        return str(x)

    take.__annotations__["x"] = hint
    with pytest.raises(DefinitionError, match=rf"\.take: .*{said}"):
        tool(take)


@pytest.mark.parametrize(
    ("hint", "default"),
    [
        (int | None, None),
        (float, 1),
        (list[str], ()),
        (Decimal, 0),
        (Colour, Colour.RED),
        (Literal["a", "b"], "a"),
        (int, Field(3, ge=1)),
        (list[int], Field(default_factory=list)),
    ],
)
def test_default_compatible_with_type_hint_is_accepted(registered: Registry, hint: Any, default: Any) -> None:
    def take(x: Any = default) -> str:
        return str(x)

    take.__annotations__["x"] = hint
    tool(take)
    assert "take" in registered.tools


@pytest.mark.parametrize("hint", [Group, list[Group], Group | None, dict[str, Group]])
def test_model_return_type_is_rejected(registered: Registry, hint: Any) -> None:
    def give() -> Any:
        return None

    give.__annotations__["return"] = hint
    with pytest.raises(DefinitionError, match=r"\.give: returns the model Group, .* queryset\.values"):
        tool(give)


def test_model_parameter_is_rejected(registered: Registry) -> None:
    def take(group: Group) -> str:
        return group.name

    with pytest.raises(DefinitionError, match=r"\.take: parameter 'group' is the model Group.* Take its key"):
        tool(take)


class Form(BaseModel):
    agreed: bool = Field(True, description=gettext_lazy("Yes"))


@override_settings(LANGUAGE_CODE="de")
def test_lazy_texts_are_translated_to_project_language(registered: Registry) -> None:
    def ask(word: Annotated[str, Field(description=gettext_lazy("Yes"))], form: Form) -> Form:
        return form

    with override("fr"):
        tool(title=gettext_lazy("Yes"), description=gettext_lazy("No"))(ask)
        prompt(title=gettext_lazy("No"))(greet)
    wire = registered.tools["ask"].wire
    assert (wire["title"], wire["description"]) == ("Ja", "Nein")
    assert wire["inputSchema"]["properties"]["word"]["description"] == "Ja"
    assert wire["inputSchema"]["$defs"]["Form"]["properties"]["agreed"]["description"] == "Ja"
    assert wire["outputSchema"]["properties"]["agreed"]["description"] == "Ja"
    assert registered.prompts["greet"].wire["title"] == "Nein"


def greet(name: str) -> str:
    return name


class Shelf:
    def __init__(self, books: int) -> None:
        self.books = books

    def count(self, more: int) -> int:
        """Count."""
        return self.books + more

    async def acount(self, more: int) -> int:
        """Count."""
        return self.books + more

    @classmethod
    def named(cls, name: str) -> str:
        """Name."""
        return f"{cls.__name__} {name}"

    @staticmethod
    def size() -> int:
        """Size."""
        return 1


def test_bound_static_and_class_methods_register_as_tools(registered: Registry) -> None:
    shelf = Shelf(3)
    for method in (shelf.count, shelf.acount, Shelf.named, Shelf.size):
        tool(method)
    assert list(registered.tools) == ["count", "acount", "named", "size"]
    assert registered.tools["count"].function.call(more=1) == 4
    assert registered.tools["count"].code_path.endswith("Shelf.count")
    assert "self" not in str(registered.tools["acount"].wire["inputSchema"])


def test_unbound_method_is_rejected_with_remedy(registered: Registry) -> None:
    with pytest.raises(DefinitionError, match=r"Shelf\.count: .* tool\(obj\.method\)"):
        tool(Shelf.count)
