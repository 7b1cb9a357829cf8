"""Swagger 2.0 documents are converted like those of OpenAPI 3 (INT-20)."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_app.catalogue.sources.http.openapi.convert import ConvertedTool, Converter
from mcp_app.catalogue.sources.http.openapi.faults import Unconvertible
from mcp_app.catalogue.sources.http.openapi.security import schemes_of
from mcp_app.catalogue.sources.http.openapi.servers import servers_of
from tests.unit.catalogue.sources.http.openapi.documents import swagger

TEXT = {"type": "string"}


def convert(operation: dict[str, Any], path: str = "/x", **members: Any) -> ConvertedTool:
    return Converter(swagger({path: {"post": operation}}, **members)).tool(f"POST {path}")


@pytest.mark.requirement("INT-20")
def test_parameters_and_body_become_arguments() -> None:
    parameters = [
        {"$ref": "#/parameters/Id"},
        {"name": "size", "in": "query", "type": "integer", "minimum": 1, "required": True},
        {"name": "order", "in": "body", "required": True, "schema": {"$ref": "#/definitions/Order"}},
    ]
    found = convert(
        {"parameters": parameters},
        "/x/{id}",
        parameters={"Id": {"name": "id", "in": "path", "type": "string", "required": True}},
        definitions={
            "Order": {
                "type": "object",
                "properties": {"item": {"$ref": "#/definitions/Item"}},
                "required": ["item"],
            },
            "Item": TEXT,
            "Unused": TEXT,
        },
    )
    assert found.input_schema == {
        "type": "object",
        "properties": {
            "id": TEXT,
            "size": {"type": "integer", "minimum": 1},
            "item": {"$ref": "#/$defs/Item"},
        },
        "required": ["id", "size", "item"],
        "additionalProperties": False,
        "$defs": {"Item": TEXT},
    }
    assert (found.request["origin"], found.request["path"]) == ("https://api.example.com", "/v1/x/{id}")


@pytest.mark.requirement("INT-26")
@pytest.mark.parametrize(
    ("form", "style", "explode"),
    [
        (None, "form", False),
        ("csv", "form", False),
        ("ssv", "spaceDelimited", False),
        ("tsv", "tabDelimited", False),
        ("pipes", "pipeDelimited", False),
        ("multi", "form", True),
    ],
)
def test_collection_format_becomes_a_style(form: str | None, style: str, explode: bool) -> None:
    parameter = {"name": "a", "in": "query", "type": "array", "items": TEXT}
    parameter |= {"collectionFormat": form} if form else {}
    (found,) = convert({"parameters": [parameter]}).request["parameters"]
    assert (found["style"], found["explode"]) == (style, explode)


def test_unknown_collection_format_is_refused() -> None:
    parameter = {"name": "a", "in": "query", "type": "array", "items": TEXT, "collectionFormat": "own"}
    with pytest.raises(Unconvertible, match="style 'own' does not exist"):
        convert({"parameters": [parameter]})


@pytest.mark.parametrize(
    ("fields", "consumes", "mode"),
    [
        ([{"type": "string"}], [], "form"),
        ([{"type": "string"}], ["multipart/form-data"], "multipart"),
        ([{"type": "string"}, {"type": "file"}], ["application/x-www-form-urlencoded"], "multipart"),
    ],
)
def test_form_data_becomes_a_form_or_multipart_body(
    fields: list[Any], consumes: list[str], mode: str
) -> None:
    parameters = [{"name": f"f{n}", "in": "formData", **field} for n, field in enumerate(fields)]
    found = convert({"parameters": parameters, "consumes": consumes})
    assert found.request["body"]["mode"] == mode
    assert list(found.input_schema["properties"]) == [f"f{n}" for n in range(len(fields))]


def test_content_types_of_operation_replace_those_of_the_document() -> None:
    body = {"name": "b", "in": "body", "schema": TEXT}
    found = convert({"parameters": [body], "consumes": ["text/plain"]}, consumes=["application/json"])
    assert found.request["body"]["mode"] == "text"
    assert convert({"parameters": [body]}, consumes=["application/json"]).request["body"]["mode"] == "json"


def test_schemes_and_security_are_converted() -> None:
    found = schemes_of(
        swagger(
            {"/x": {"get": {}}},
            securityDefinitions={
                "user": {"type": "basic"},
                "key": {"type": "apiKey", "in": "query", "name": "key"},
                "machine": {
                    "type": "oauth2",
                    "flow": "application",
                    "tokenUrl": "https://a.example/t",
                    "scopes": {"r": ""},
                },
                "person": {"type": "oauth2", "flow": "accessCode"},
            },
        )
    )
    kinds = {name: each.kind for name, each in found.items()}
    assert kinds == {"user": "basic", "key": "api_key", "machine": "client_credentials", "person": "bearer"}
    assert (found["machine"].token_url, found["machine"].scopes) == ("https://a.example/t", ("r",))


@pytest.mark.parametrize(
    ("members", "urls"),
    [
        ({"schemes": ["http", "https"]}, ["https://api.example.com/v1", "http://api.example.com/v1"]),
        ({}, ["https://api.example.com/v1"]),
        ({"host": None}, ["https://docs.example.com/v1"]),
    ],
)
def test_host_and_schemes_become_servers(members: dict[str, Any], urls: list[str]) -> None:
    assert [each.url for each in servers_of(swagger({"/x": {"get": {}}}, **members))] == urls
