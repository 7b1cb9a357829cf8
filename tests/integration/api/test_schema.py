"""The OpenAPI document:

valid, complete with requirements of each route, and its page without inline scripts.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from openapi_spec_validator import OpenAPIV31SpecValidator

from mcp_app.api import schema
from tests.integration.api.test_roles import NOWHERE, routes
from tests.samples.admin_seed import RAW_MARKUP, Seed

pytestmark = pytest.mark.django_db


@pytest.fixture
def document(root: Client) -> dict[str, Any]:
    """Return the served document."""
    found: dict[str, Any] = root.get("/api/schema/").json()
    return found


def test_document_is_valid_openapi_3_1(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1.")
    assert document["info"]["version"] == "1"
    OpenAPIV31SpecValidator(document).validate()


def test_document_lists_every_route_with_its_requirements(document: dict[str, Any]) -> None:
    paths = {re.sub(r"\{\w+\}", "{}", path): found for path, found in document["paths"].items()}
    for route, method in routes():
        if route in (NOWHERE, "docs/"):
            continue
        path = "/api/" + re.sub(r"<\w+:\w+>", "{}", route)
        operation = paths[path][method.lower()]
        open_to_all = route in ("", "schema/", "usage/") or route.startswith("connections/")
        assert open_to_all or "`mcp_app." in operation["description"], (method, path)
        problem = operation["responses"]["default"]["content"]["application/problem+json"]["schema"]
        assert problem == {"$ref": "#/components/schemas/Problem"}


def test_fields_are_described_by_what_they_hold(document: dict[str, Any]) -> None:
    bodies = document["components"]["schemas"]
    fields = {
        f"{body}.{name}": field.get("description", "")
        for body, schema in bodies.items()
        for name, field in schema.get("properties", {}).items()
    }
    parameters = {
        f"{path} {each['name']}": each.get("description", "")
        for path, operations in document["paths"].items()
        for operation in operations.values()
        for each in operation.get("parameters", ())
    }
    assert fields["LimitShown.exempt"] == "The exempt callers, by name."
    told = fields | parameters
    assert not [name for name, text in told.items() if text.startswith(("Return ", "Returns "))]


@pytest.mark.parametrize(
    ("path", "one", "many"),
    [
        ("tools", "a tool", "tools"),
        ("prompts", "a prompt", "prompts"),
        ("resources", "a resource", "resources"),
        ("templates", "a resource template", "resource templates"),
    ],
)
def test_operations_name_their_kind_of_entry(
    document: dict[str, Any], path: str, one: str, many: str
) -> None:
    listing, single = document["paths"][f"/api/{path}/"], document["paths"][f"/api/{path}/{{id}}/"]
    assert listing["get"]["summary"] == f"List all {many}."
    assert listing["get"]["description"].startswith(f"Includes disabled {many}.")
    assert single["get"]["summary"] == f"Retrieve {one}."
    assert "`mcp_app.publish_entries`" in single["patch"]["description"]
    assert path == "templates" or listing["post"]["summary"] == f"Create {one}."


def test_docs_page_names_the_fields_of_errors(root: Client) -> None:
    page = root.get("/api/docs/").content.decode()
    assert "<summary>Response fields of an error</summary>" in page
    assert "Response fields: refused" not in page


def test_document_is_generated_without_warnings(
    root: Client, seeded: Seed, capfd: pytest.CaptureFixture[str]
) -> None:
    # Generated once for each process, perhaps by a test before.
    schema._document.cache_clear()
    root.get("/api/schema/")
    assert "Warning" not in capfd.readouterr().err


def test_document_contains_no_row_data(root: Client, seeded: Seed) -> None:
    text = root.get("/api/schema/").content.decode()
    assert "web_scrape" not in text
    assert not [markup for markup in RAW_MARKUP if markup in text]


def test_docs_page_has_no_inline_scripts_or_external_links(root: Client) -> None:
    page = root.get("/api/docs/").content.decode()
    assert not re.findall(r"<script(?![^>]*\bsrc=)", page)
    assert not re.findall(r"\bon\w+=", page)
    assert not re.findall(r"(?:src|href)=\"(?:https?:)?//", page)


def test_anonymous_docs_request_redirects_to_login(client: Client, db: None) -> None:
    answer = client.get("/api/docs/")
    assert (answer.status_code, answer["Location"]) == (302, "/admin/login/?next=/api/docs/")


def test_root_leads_browsers_to_the_docs_page(root: Client) -> None:
    answer = root.get("/api/", headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert (answer.status_code, answer["Location"]) == (302, "/api/docs/")


def test_every_link_of_the_root_resolves(root: Client) -> None:
    told = root.get("/api/").json()
    assert told["user"] == "the-superuser"
    for name, address in told["links"].items():
        assert root.get(address).status_code == (405 if name == "import" else 200), name
