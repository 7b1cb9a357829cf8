from __future__ import annotations

from typing import Any

import pytest

from mcp_app.protocol.features.elicitation import (
    check_answer,
    check_form,
    check_url,
    choices,
    secret_like_names,
)
from tests.samples.published_schema import problems


def form(required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    return schema if required is None else {**schema, "required": required}


TITLED = [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]
GOOD = form(
    ["name"],
    name={
        "type": "string",
        "title": "Name",
        "description": "Yours",
        "minLength": 1,
        "maxLength": 5,
        "default": "x",
    },
    mail={"type": "string", "format": "email", "default": "a@example.com"},
    site={"type": "string", "format": "uri"},
    day={"type": "string", "format": "date"},
    moment={"type": "string", "format": "date-time"},
    age={"type": "integer", "minimum": 0, "maximum": 150, "default": 30},
    score={"type": "number", "minimum": 0.5, "default": 95.5},
    sure={"type": "boolean", "default": True},
    colour={"type": "string", "enum": ["r", "g"], "default": "r"},
    legacy={"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]},
    titled={"type": "string", "oneOf": TITLED, "default": "g"},
    many={"type": "array", "items": {"type": "string", "enum": ["r", "g"]}, "minItems": 1, "maxItems": 2},
    titled_many={"type": "array", "items": {"anyOf": TITLED}, "default": ["r"]},
)


@pytest.mark.requirement("ELI-03")
def test_published_primitive_schemas_are_accepted() -> None:
    check_form(GOOD)
    check_form(
        {"type": "object", "properties": {}, "$schema": "https://json-schema.org/draft/2020-12/schema"}
    )
    for name, member in GOOD["properties"].items():
        assert problems("2025-11-25", "PrimitiveSchemaDefinition", member) == [], name


@pytest.mark.requirement("ELI-03")
@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({}, "object schema"),
        ({"type": "object"}, "object schema"),
        ({"type": "string", "properties": {}}, "object schema"),
        ({"type": "object", "properties": []}, "object schema"),
        ({**form(), "$defs": {}}, "cannot use '\\$defs'"),
        ({**form(), "allOf": []}, "cannot use 'allOf'"),
        (form(["b"], a={"type": "string"}), "'required'"),
        ({**form(), "required": "a"}, "'required'"),
        (form(a={}), "'a' must be a string, number"),
        (form(a=True), "'a' must be a string, number"),
        (form(a={"type": ["string", "null"]}), "'a' must be a string, number"),
        (form(a={"type": "object", "properties": {}}), "'a' must be a string, number"),
        (form(a={"$ref": "#/x"}), "'a' must be a string, number"),
        (form(a={"type": "string", "pattern": "x"}), "cannot use 'pattern'"),
        (form(a={"type": "boolean", "minimum": 1}), "cannot use 'minimum'"),
        (form(a={"type": "string", "format": "password"}), "must be one of email"),
        (form(a={"type": "array"}), "must have 'items'"),
        (form(a={"type": "array", "items": {"type": "string"}}), "must have 'items'"),
        (form(a={"type": "array", "items": form()}), "must have 'items'"),
        (form(a={"type": "string", "enum": []}), "choices"),
        (form(a={"type": "string", "enum": [1]}), "choices"),
        (form(a={"type": "string", "oneOf": [{"const": "x"}]}), "choices"),
        (form(a={"type": "string", "enum": ["x"], "enumNames": []}), "enumNames"),
        (form(a={"type": "string", "enumNames": ["x"]}), "enumNames"),
        (form(a={"type": "integer", "default": "x"}), "default of the form member 'a' must be a number"),
        (form(a={"type": "string", "enum": ["x"], "default": "y"}), "default of the form member 'a'"),
    ],
)
def test_unsupported_form_schema_is_rejected_by_name(schema: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        check_form(schema)


@pytest.mark.requirement("ELI-06")
@pytest.mark.parametrize(
    "name",
    [
        "password",
        "user_password",
        "userPassword",
        "APIKey",
        "api_key",
        "api-key",
        "privateKey",
        "secret",
        "client_secret",
        "accessToken",
        "token",
        "card_number",
        "creditCard",
        "CVV",
        "otp",
        "passphrase",
    ],
)
def test_form_requesting_secret_is_rejected(name: str) -> None:
    for schema in (form(**{name: {"type": "string"}}), form(a={"type": "string", "title": name})):
        assert len(secret_like_names(schema)) == 1
        with pytest.raises(ValueError, match="URL mode"):
            check_form(schema)


@pytest.mark.parametrize(
    "name", ["name", "keyboard", "compass", "tokenize", "cardinal_number", "pinned", "key"]
)
def test_harmless_names_are_not_secret_like(name: str) -> None:
    assert secret_like_names(form(**{name: {"type": "string"}})) == []


@pytest.mark.requirement("ELI-05")
@pytest.mark.parametrize(
    "content",
    [
        {"name": "Ana"},
        {"name": "😀😀😀😀😀"},
        {"name": "a", "unknown": {}},
        {"name": "a", "mail": "a@b", "site": "https://example.com/", "day": "2025-02-28"},
        {"name": "a", "moment": "2025-02-28T10:00:00Z"},
        {"name": "a", "moment": "2025-02-28t10:00:00.5+02:00"},
        {"name": "a", "age": 0, "score": 0.5, "sure": False},
        {"name": "a", "age": 30.0, "score": 1},
        {"name": "a", "colour": "g", "legacy": "r", "titled": "r", "many": ["r"], "titled_many": []},
    ],
)
def test_valid_answer_is_accepted(content: dict[str, Any]) -> None:
    assert check_answer(GOOD, content) is None


@pytest.mark.requirement("ELI-05")
@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({}, "'name' is missing."),
        ({"name": None}, "'name' must be a text."),
        ({"name": 1}, "'name' must be a text."),
        ({"name": ""}, "'name' must have at least 1 characters."),
        ({"name": "abcdef"}, "'name' must have at most 5 characters."),
        ({"name": "a", "mail": "ab"}, "'mail' must be in the format email."),
        ({"name": "a", "mail": "a@b c"}, "'mail' must be in the format email."),
        ({"name": "a", "site": "example"}, "'site' must be in the format uri."),
        ({"name": "a", "day": "2025-02-30"}, "'day' must be in the format date."),
        ({"name": "a", "day": "20250228"}, "'day' must be in the format date."),
        ({"name": "a", "moment": "2025-02-28"}, "'moment' must be in the format date-time."),
        ({"name": "a", "moment": "2025-02-28T10:00:00"}, "'moment' must be in the format date-time."),
        ({"name": "a", "age": 1.5}, "'age' must be a whole number."),
        ({"name": "a", "age": True}, "'age' must be a number."),
        ({"name": "a", "age": "1"}, "'age' must be a number."),
        ({"name": "a", "age": -1}, "'age' must be at least 0."),
        ({"name": "a", "age": 151}, "'age' must be at most 150."),
        ({"name": "a", "sure": "yes"}, "'sure' must be true or false."),
        ({"name": "a", "sure": 1}, "'sure' must be true or false."),
        ({"name": "a", "colour": "b"}, "'colour' must be one of r, g."),
        ({"name": "a", "titled": "Red"}, "'titled' must be one of r, g."),
        ({"name": "a", "many": "r"}, "'many' must be a list of some of r, g."),
        ({"name": "a", "many": ["b"]}, "'many' must be a list of some of r, g."),
        ({"name": "a", "many": [["r"]]}, "'many' must be a list of some of r, g."),
        ({"name": "a", "many": []}, "'many' needs at least 1 choices."),
        ({"name": "a", "many": ["r", "g", "r"]}, "'many' takes at most 2 choices."),
    ],
)
def test_invalid_answer_names_problem(content: dict[str, Any], problem: str) -> None:
    assert check_answer(GOOD, content) == problem


def test_choices_are_found_in_every_select_form() -> None:
    members = GOOD["properties"]
    for name in ("colour", "legacy", "titled", "many", "titled_many"):
        assert choices(members[name]) == ["r", "g"]
    assert choices(members["name"]) is None
    assert choices({"type": "array", "items": 1}) is None


@pytest.mark.requirement("ELI-10")
@pytest.mark.parametrize(
    ("url", "fits"),
    [
        ("https://example.com/connect?id=1", True),
        ("http://example.com/", False),
        ("javascript:alert(1)", False),
        ("https://user@example.com/", False),
        ("https://user:pw@example.com/", False),
        ("https:///x", False),
        ("https://example.com/a b", False),
        ("https://example.com/\n", False),
        ("https://[::1", False),
        ("", False),
    ],
)
def test_url_elicitation_requires_plain_https(url: str, fits: bool) -> None:
    if fits:
        check_url(url)
        return
    with pytest.raises(ValueError, match="URL of an elicitation"):
        check_url(url)


def test_url_elicitation_allows_http_in_development() -> None:
    check_url("http://localhost:8000/connect", allow_http=True)
