"""Servers are resolved, and security becomes credentials instead of arguments (INT-28)."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_app.catalogue.sources.http.openapi.faults import Unconvertible
from mcp_app.catalogue.sources.http.openapi.security import needed, requirements_of, schemes_of
from mcp_app.catalogue.sources.http.openapi.servers import servers_of, typed_server
from tests.unit.catalogue.sources.http.openapi.documents import ADDRESS, converter, document


@pytest.mark.requirement("INT-28")
@pytest.mark.parametrize(
    ("servers", "url", "resolved", "problem"),
    [
        ([{"url": "https://api.example.com/v2"}], ADDRESS, "https://api.example.com/v2", ""),
        ([{"url": "/v2"}], ADDRESS, "https://docs.example.com/v2", ""),
        ([{"url": "../v2"}], ADDRESS, "https://docs.example.com/v2", ""),
        ([{"url": "/v2"}], "", "/v2", "is relative"),
        (None, ADDRESS, "https://docs.example.com/", ""),
        ([], "", "/", "is relative"),
        (
            [{"url": "{scheme}://a.example", "variables": {"scheme": {"default": "https"}}}],
            "",
            "https://a.example",
            "",
        ),
        ([{"url": "https://{tenant}.example.com"}], "", "https://{tenant}.example.com", "Replace 'tenant'"),
        ([{"url": "ftp://a.example"}], "", "ftp://a.example", "cannot be called"),
        ([{"url": "https://user@a.example"}], "", "https://user@a.example", "user name"),
        ([{"url": "https://a.example:99999"}], "", "https://a.example:99999", "not a web address"),
    ],
)
def test_server_addresses_are_resolved_or_have_a_problem(
    servers: Any, url: str, resolved: str, problem: str
) -> None:
    found = servers_of(document(url=url, servers=servers))[0]
    assert found.url == resolved
    assert bool(found.problem) == bool(problem)
    assert problem in found.problem


def test_server_has_origin_base_and_choices() -> None:
    given = [
        {"url": "HTTP://Api.Example.com:8080/v1/", "variables": {"a": {"enum": ["x", "y"], "default": "x"}}}
    ]
    (found,) = servers_of(document(servers=given))
    assert (found.origin, found.base) == ("http://api.example.com:8080", "/v1")
    assert found.variables[0].choices == ("x", "y")
    assert typed_server("http://[::1]:80/a").origin == "http://[::1]:80"


SCHEMES = {
    "bearer": {"type": "http", "scheme": "Bearer"},
    "basic": {"type": "http", "scheme": "basic"},
    "digest": {"type": "http", "scheme": "digest"},
    "key": {"type": "apiKey", "in": "query", "name": "key"},
    "cookie": {"type": "apiKey", "in": "cookie", "name": "sid"},
    "machine": {
        "type": "oauth2",
        "flows": {"clientCredentials": {"tokenUrl": "https://t.example", "scopes": {}}},
    },
    "person": {"type": "oauth2", "flows": {"authorizationCode": {}}},
    "oidc": {"type": "openIdConnect"},
    "mtls": {"type": "mutualTLS"},
    "broken": "text",
    "lost": {"$ref": "#/no"},
}


def test_schemes_become_proposed_credentials() -> None:
    found = schemes_of(document(components={"securitySchemes": SCHEMES}))
    assert {name: each.kind for name, each in found.items()} == {
        "bearer": "bearer", "basic": "basic", "digest": "", "key": "api_key", "cookie": "api_key",
        "machine": "client_credentials", "person": "bearer", "oidc": "bearer", "mtls": "", "broken": "",
        "lost": "",
    }  # fmt: skip
    assert all(each.hint for each in found.values())


@pytest.mark.parametrize(
    ("root", "own", "chosen"),
    [
        (None, None, ()),
        ([{"key": []}], None, ("key",)),
        ([{"key": []}], [], ()),
        ([], [{"bearer": []}, {"key": []}], ("bearer",)),
        ([], [{"mtls": []}, {"key": []}], ("key",)),
        ([], [{}, {"key": []}], ("key",)),
        ([], [{"key": [], "bearer": []}], ("key", "bearer")),
        ([], [{"mtls": []}], ("mtls",)),
        ([], [{"unknown": []}], ("unknown",)),
    ],
)
def test_first_alternative_that_credentials_satisfy_is_chosen(
    root: Any, own: Any, chosen: tuple[str, ...]
) -> None:
    operation = {} if own is None else {"security": own}
    members = {} if root is None else {"security": root}
    found = document({"/x": {"get": operation}}, components={"securitySchemes": SCHEMES}, **members)
    assert needed(requirements_of(found, found.places["GET /x"]), schemes_of(found)) == chosen


def test_security_sets_the_credential_and_is_never_an_argument() -> None:
    parameters = [{"name": "key", "in": "query", "required": True, "schema": {"type": "string"}}]
    made = converter(
        {"security": [{"key": []}], "parameters": parameters}, components={"securitySchemes": SCHEMES}
    )
    made.credentials = {"key": "shop"}
    found = made.tool("POST /x")
    assert found.request["credential"] == "shop"
    assert found.request["parameters"] == []
    assert found.input_schema["properties"] == {}


@pytest.mark.parametrize(
    ("security", "note"),
    [
        ({"mtls": []}, "'mutualTLS' is not supported"),
        ({"no": []}, "not described"),
        ({"key": [], "bearer": []}, "key and bearer"),
    ],
)
def test_unknown_and_combined_security_is_noted(security: Any, note: str) -> None:
    made = converter({"security": [security]}, components={"securitySchemes": SCHEMES})
    assert note in " ".join(each.text for each in made.tool("POST /x").notes)


SEVERAL = {
    "first": {"type": "http", "scheme": "bearer"},
    "second": {"type": "apiKey", "in": "header", "name": "X-App"},
    "third": {"type": "apiKey", "in": "query", "name": "app"},
}


@pytest.mark.parametrize(
    ("security", "given", "credential"),
    [
        ([{"first": []}, {"second": []}], {"second": "b"}, "b"),
        ([{"first": []}, {"second": []}], {"first": "a", "second": "b"}, "a"),
        ([{"first": [], "second": []}, {"third": []}], {"third": "c"}, "c"),
        ([{"first": [], "second": []}], {"first": "a", "second": "a"}, "a"),
        ([{"first": [], "second": []}], {}, None),
        ([{}, {"third": []}], {}, None),
    ],
)
def test_alternative_with_chosen_credentials_is_used(
    security: Any, given: dict[str, str], credential: str | None
) -> None:
    found = converter({"security": security}, components={"securitySchemes": SEVERAL})
    found.credentials = given
    (key,) = found.document.places
    assert found.tool(key).request.get("credential") == credential


@pytest.mark.parametrize(
    ("security", "given", "reason"),
    [
        ({"first": [], "second": []}, {"first": "a", "second": "b"}, "store all headers in one"),
        ({"first": [], "second": []}, {"first": "a"}, "store all headers in one"),
        ({"first": [], "third": []}, {"first": "a", "third": "c"}, "third is sent in the query"),
    ],
)
def test_several_credentials_together_are_refused_with_the_way_out(
    security: Any, given: dict[str, str], reason: str
) -> None:
    found = converter({"security": [security]}, components={"securitySchemes": SEVERAL})
    (key,) = found.document.places
    assert any("together" in note.text for note in found.tool(key).notes)
    found.credentials = given
    with pytest.raises(Unconvertible, match=reason):
        found.tool(key)


REGIONS = {"region": {"enum": ["eu", "us"], "default": "eu"}, "version": {"default": "v1"}}


@pytest.mark.requirement("INT-28")
@pytest.mark.parametrize(
    ("url", "values", "filled"),
    [
        ("https://{region}.example.com/{version}", {}, "https://eu.example.com/v1"),
        (
            "https://{region}.example.com/{version}",
            {"region": "us", "version": "2"},
            "https://us.example.com/2",
        ),
        ("/{version}/x", {"version": "v3"}, "https://docs.example.com/v3/x"),
    ],
)
def test_variables_of_a_server_are_chosen(url: str, values: dict[str, str], filled: str) -> None:
    (server,) = servers_of(document(url=ADDRESS, servers=[{"url": url, "variables": REGIONS}]))
    assert server.filled(values) == filled


@pytest.mark.parametrize(
    "values", [{"region": "mars"}, {"version": "a b"}, {"version": "x?y"}, {"version": "@b"}]
)
def test_values_outside_a_variable_are_refused(values: dict[str, str]) -> None:
    (server,) = servers_of(document(servers=[{"url": "https://{region}.a/{version}", "variables": REGIONS}]))
    with pytest.raises(ValueError, match=next(iter(values))):
        server.filled(values)
