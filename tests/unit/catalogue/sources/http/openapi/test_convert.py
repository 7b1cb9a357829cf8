"""Operations become request plans and input schemas."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_app.catalogue.schemas.client_rules import refusals
from mcp_app.catalogue.sources.http.openapi.convert import ConvertedTool, Converter
from mcp_app.catalogue.sources.http.openapi.faults import Unconvertible
from tests.unit.catalogue.sources.http.openapi.documents import converter, document, json_body

TEXT = {"type": "string"}
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"


def convert(
    operation: dict[str, Any], *, method: str = "post", path: str = "/x", **members: Any
) -> ConvertedTool:
    return converter(operation, method=method, path=path, **members).tool(f"{method.upper()} {path}")


def query(name: str, **members: Any) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": TEXT, **members}


def content(kind: str, schema: Any, **members: Any) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema, **members}}}}


def test_operation_becomes_a_request_plan_with_its_arguments() -> None:
    operation = {
        "operationId": "orders/update",
        "summary": "Update an order",
        "description": "All fields are optional.",
        "tags": ["orders"],
        "parameters": [{**query("verbose"), "schema": {"type": "boolean"}, "description": "More words"}],
        "requestBody": json_body({"type": "object", "properties": {"note": TEXT}, "required": ["note"]}),
        "responses": {"200": {"content": {"application/json": {}}}},
    }
    found = convert(operation, method="put", path="/orders/{id}")
    assert found.request == {
        "origin": "https://api.example.com",
        "method": "PUT",
        "path": "/v1/orders/{id}",
        "operation": "PUT /orders/{id}",
        "parameters": [
            {"argument": "verbose", "in": "query", "name": "verbose", "style": "form", "explode": True},
            {"argument": "id", "in": "path", "name": "id", "style": "simple", "explode": False},
        ],
        "body": {
            "mode": "json",
            "content_type": "application/json",
            "template": {"note": {"$argument": "note"}},
        },
        "headers": {"Accept": "application/json"},
    }
    assert found.input_schema == {
        "type": "object",
        "properties": {
            "verbose": {"type": "boolean", "description": "More words"},
            "id": TEXT,
            "note": TEXT,
        },
        "required": ["id", "note"],
        "additionalProperties": False,
    }
    assert (found.name, found.title, found.tags) == ("orders_update", "Update an order", ("orders",))
    assert found.description == "Update an order\n\nAll fields are optional."
    assert found.tokens == found.size // 4 > 0


@pytest.mark.requirement("INT-25")
@pytest.mark.parametrize(
    ("method", "read_only", "destructive", "idempotent"),
    [
        ("get", True, False, True),
        ("head", True, False, True),
        ("post", False, False, False),
        ("put", False, False, True),
        ("patch", False, False, False),
        ("delete", False, True, True),
    ],
)
def test_hints_follow_the_method(method: str, read_only: bool, destructive: bool, idempotent: bool) -> None:
    assert convert({}, method=method).annotations == {
        "readOnlyHint": read_only,
        "destructiveHint": destructive,
        "idempotentHint": idempotent,
        "openWorldHint": True,
    }


def test_parameters_of_the_path_are_merged_and_replaced_by_name_and_place() -> None:
    item = {
        "parameters": [
            query("a", description="shared"),
            query("b"),
            {"name": "a", "in": "header", "schema": TEXT},
        ],
        "get": {"parameters": [query("a", description="own", required=True)]},
    }
    found = Converter(document({"/x": item})).tool("GET /x")
    assert list(found.input_schema["properties"]) == ["a", "b", "a__header"]
    assert found.input_schema["properties"]["a"]["description"] == "own"
    assert found.input_schema["required"] == ["a"]


def test_arguments_of_the_same_name_each_have_their_place() -> None:
    operation = {
        "parameters": [query("id"), query("filter[state]")],
        "requestBody": json_body({"type": "object", "properties": {"id": TEXT, "filter_state": TEXT}}),
    }
    found = convert(operation, path="/x/{id}")
    assert {
        each["name"]: each["argument"] for each in found.request["parameters"] if each["in"] == "query"
    } == {
        "id": "id__query",
        "filter[state]": "filter_state__query",
    }
    assert found.request["body"]["template"] == {
        "id": {"$argument": "id__body"},
        "filter_state": {"$argument": "filter_state"},
    }
    assert found.input_schema["required"] == ["id"]
    assert not refusals({"name": found.name, "inputSchema": found.input_schema})


@pytest.mark.parametrize(
    ("schema", "is_flat"),
    [
        ({"type": "object", "properties": {"a": TEXT}}, True),
        ({"properties": {"a": TEXT}, "additionalProperties": False}, True),
        ({"$ref": "#/components/schemas/Flat"}, True),
        ({"properties": {"a": TEXT}, "anyOf": [{"required": ["a"]}]}, True),
        ({"properties": {"a": TEXT}, "additionalProperties": True}, False),
        ({"properties": {"a": TEXT}, "allOf": [{"properties": {"b": TEXT}}]}, False),
        ({"type": "object"}, False),
        ({"type": "array", "items": TEXT}, False),
        ({"oneOf": [TEXT, {"type": "integer"}]}, False),
        ({"type": "object", "properties": {"a": TEXT}, "nullable": True}, False),
        (TEXT, False),
    ],
)
def test_plain_objects_become_arguments_and_other_bodies_a_single_one(schema: Any, is_flat: bool) -> None:
    components = {"schemas": {"Flat": {"properties": {"a": TEXT}}}}
    found = convert({"requestBody": json_body(schema)}, components=components)
    assert list(found.input_schema["properties"]) == (["a"] if is_flat else ["body"])
    assert found.request["body"]["template"] == (
        {"a": {"$argument": "a"}} if is_flat else {"$argument": "body"}
    )
    assert found.input_schema.get("required", []) == ([] if is_flat else ["body"])


@pytest.mark.parametrize(
    ("kinds", "mode", "sent"),
    [
        (["application/xml", FORM, "application/json"], "json", "application/json"),
        (["application/merge-patch+json"], "json", "application/merge-patch+json"),
        (["application/json-patch+json", "text/plain"], "json", "application/json-patch+json"),
        (["*/*"], "json", "application/json"),
        ([FORM, "text/plain"], "form", FORM),
        ([MULTIPART], "multipart", MULTIPART),
        (["text/plain", "application/xml"], "text", "text/plain"),
        (["application/xml"], "text", "application/xml"),
        (["application/octet-stream"], "raw", "application/octet-stream"),
        (["image/png"], "raw", "image/png"),
    ],
)
def test_content_type_is_chosen_by_one_order(kinds: list[str], mode: str, sent: str) -> None:
    body = {"content": {kind: {"schema": {"type": "object", "properties": {"a": TEXT}}} for kind in kinds}}
    for given in (body, {"content": dict(reversed(body["content"].items()))}):
        found = convert({"requestBody": given}).request["body"]
        assert (found["mode"], found["content_type"]) == (mode, sent)


def test_form_fields_are_sent_in_their_own_style() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": TEXT}, "b": TEXT}}
    encoding = {"a": {"style": "deepObject", "explode": True}}
    found = convert(content(FORM, schema, encoding=encoding))
    assert found.request["body"]["encoding"] == {"a": {"style": "deepObject", "explode": True}}


def test_files_of_multipart_are_arguments_in_base64() -> None:
    files = {"type": "array", "items": {"type": "string", "format": "binary"}}
    schema = {
        "properties": {
            "file": {"type": "string", "format": "binary"},
            "more": files,
            "meta": {"type": "object"},
        }
    }
    found = convert(content(MULTIPART, schema, encoding={"meta": {"contentType": "application/json"}}))
    assert found.request["body"]["encoding"] == {
        "file": {"base64": True, "filename": "file"},
        "more": {"base64": True, "filename": "more"},
        "meta": {"contentType": "application/json"},
    }
    assert found.input_schema["properties"]["file"] == {"type": "string", "contentEncoding": "base64"}


def test_optional_body_has_no_required_arguments() -> None:
    schema = {"type": "object", "properties": {"a": TEXT}, "required": ["a"]}
    found = convert({"requestBody": json_body(schema, required=False)})
    assert "required" not in found.input_schema


def test_parameter_with_content_is_sent_as_json() -> None:
    parameter = {
        "name": "filter",
        "in": "query",
        "content": {"application/json": {"schema": {"type": "object"}}},
    }
    found = convert({"parameters": [parameter]}, method="get")
    assert found.request["parameters"] == [
        {"argument": "filter", "in": "query", "name": "filter", "content": "application/json"}
    ]


def test_headers_of_the_connection_and_of_credentials_are_no_arguments() -> None:
    names = (
        "Accept",
        "Content-Type",
        "Authorization",
        "Host",
        "X-Forwarded-For",
        "Mcp-Session-Id",
        "X-Api-Key",
    )
    parameters = [{"name": name, "in": "header", "schema": TEXT} for name in (*names, "X-Own")]
    parameters.append(query("x-api-key"))
    schemes = {"key": {"type": "apiKey", "in": "header", "name": "x-api-key"}}
    found = convert({"parameters": parameters}, components={"securitySchemes": schemes})
    assert list(found.input_schema["properties"]) == ["X-Own", "x-api-key"]


@pytest.mark.parametrize(
    ("style", "explode"), [(None, None), ("pipeDelimited", None), ("spaceDelimited", False), ("form", False)]
)
def test_styles_have_the_defaults_of_the_specification(style: str | None, explode: bool | None) -> None:
    given = {"style": style, "explode": explode}
    parameter = query("a", schema={"type": "array"}, **{k: v for k, v in given.items() if v is not None})
    (found,) = convert({"parameters": [parameter]}, method="get").request["parameters"]
    assert found["style"] == (style or "form")
    assert found["explode"] is (style is None)


UNCONVERTIBLE: list[tuple[str, str, dict[str, Any], str, str]] = [
    (
        "get",
        "/x",
        {"parameters": [{"$ref": "#/components/parameters/No"}]},
        "leads nowhere",
        "/get/parameters/0",
    ),
    ("get", "/x", {"parameters": [{"in": "query"}]}, "has no name", "/get/parameters/0"),
    ("get", "/x", {"parameters": [{"name": "a", "in": "matrix"}]}, "does not exist", "/get/parameters/0"),
    ("get", "/x", {"parameters": "a"}, "not a list", "/get/parameters"),
    (
        "get",
        "/x",
        {"parameters": [query("a", style="deepObject")]},
        "cannot be sent",
        "/get/parameters/0/schema",
    ),
    ("get", "/x", {"parameters": [query("a", style="own")]}, "style 'own' does not exist", "/0/schema"),
    ("get", "/x", {"parameters": [{"name": "a b", "in": "header"}]}, "name of a header", "/0"),
    (
        "get",
        "/x",
        {"parameters": [{"name": "a", "in": "query", "content": {"text/csv": {}}}]},
        "text/csv",
        "/0",
    ),
    ("get", "/x#frag", {}, "a query or a fragment", "/get"),
    ("get", "/x?a=1", {}, "a query or a fragment", "/get"),
    ("get", "/x/{+a}", {}, "several segments", "/get"),
    ("get", "/x/{name=projects/*}", {}, "several segments", "/get"),
    ("get", "/x/{a", {}, "several segments", "/get"),
    ("get", "/x/{a}/{a}", {}, "same placeholder twice", "/get"),
    ("trace", "/x", {}, "TRACE", "/trace"),
    ("post", "/x", {"requestBody": {"$ref": "#/no"}}, "leads nowhere", "/post/requestBody"),
    ("post", "/x", content(FORM, {"type": "object"}), "fields are not listed", "/schema"),
    (
        "post",
        "/x",
        {"requestBody": json_body({"properties": {"a": {"$ref": "#/no"}}})},
        "leads nowhere",
        "/a",
    ),
]


@pytest.mark.requirement("INT-20", "INT-26")
@pytest.mark.parametrize(("method", "path", "operation", "reason", "end"), UNCONVERTIBLE)
def test_unconvertible_operation_has_reason_and_place(
    method: str, path: str, operation: dict[str, Any], reason: str, end: str
) -> None:
    found = Converter(document({path: {method: operation}, "/good": {"get": {}}}))
    with pytest.raises(Unconvertible, match=reason) as error:
        found.tool(f"{method.upper()} {path}")
    assert error.value.pointer.startswith("#/")
    assert error.value.pointer.endswith(end)
    assert found.tool("GET /good").name == "get_good"


@pytest.mark.requirement("INT-22")
def test_schema_above_the_limit_is_refused() -> None:
    huge = {
        "type": "object",
        "properties": {f"a{number}": {**TEXT, "description": "x" * 900} for number in range(300)},
    }
    with pytest.raises(Unconvertible, match="more than 256 KiB"):
        convert(
            {"requestBody": json_body({"$ref": "#/components/schemas/A"})},
            components={"schemas": {"A": huge}},
        )


def test_operation_with_its_own_server_keeps_it() -> None:
    found = convert({"servers": [{"url": "https://uploads.example.com"}]})
    assert (found.request["origin"], found.request["path"]) == ("https://uploads.example.com", "/x")
    assert "https://uploads.example.com" in found.notes[0].text


def test_vendor_hints_name_and_describe_the_tool() -> None:
    hint = {"name": "better", "description": "Better words"}
    found = convert({"summary": "Old", "description": "old", "x-speakeasy-mcp": hint})
    assert (found.name, found.description) == ("better", "Better words")


def test_placeholders_are_named_by_their_arguments_and_paths_are_encoded() -> None:
    found = convert({}, path="/a b/{user id}/ü")
    assert found.request["path"] == "/v1/a%20b/{user_id}/%C3%BC"
    (parameter,) = found.request["parameters"]
    assert (parameter["argument"], parameter["name"]) == ("user_id", "user_id")
