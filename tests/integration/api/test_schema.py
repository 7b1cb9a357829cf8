"""The OpenAPI document is valid, has every route with what it needs, and its page runs nothing inline."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from openapi_spec_validator import OpenAPIV31SpecValidator

from tests.integration.api.test_roles import NOWHERE, routes
from tests.samples.admin_seed import RAW_MARKUP, Seed

pytestmark = pytest.mark.django_db


@pytest.fixture
def document(root: Client) -> dict[str, Any]:
    """The document as it is served."""
    found: dict[str, Any] = root.get("/api/schema/").json()
    return found


def test_it_is_valid_openapi_3_1_with_a_version(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1.")
    assert document["info"]["version"] == "1"
    OpenAPIV31SpecValidator(document).validate()


def test_every_route_and_method_is_in_it_and_says_what_it_needs(document: dict[str, Any]) -> None:
    for route, method in routes():
        if route in (NOWHERE, "docs/"):
            continue
        path = "/api/" + re.sub(r"<\w+:pk>", "{id}", route)
        operation = document["paths"][path][method.lower()]
        assert "Needs" in operation["description"], (method, path)
        problem = operation["responses"]["default"]["content"]["application/problem+json"]["schema"]
        assert problem == {"$ref": "#/components/schemas/Problem"}


def test_it_can_be_made_without_any_complaint(
    root: Client, seeded: Seed, capfd: pytest.CaptureFixture[str]
) -> None:
    root.get("/api/schema/")
    assert "Warning" not in capfd.readouterr().err


def test_it_holds_no_row(root: Client, seeded: Seed) -> None:
    text = root.get("/api/schema/").content.decode()
    assert "web_scrape" not in text
    assert not [markup for markup in RAW_MARKUP if markup in text]


def test_the_page_has_no_script_of_its_own_and_asks_nobody_else(root: Client) -> None:
    page = root.get("/api/docs/").content.decode()
    assert not re.findall(r"<script(?![^>]*\bsrc=)", page)
    assert not re.findall(r"\bon\w+=", page)
    assert not re.findall(r"(?:src|href)=\"(?:https?:)?//", page)


def test_who_is_not_logged_in_is_asked_to_when_opening_the_page(client: Client, db: None) -> None:
    answer = client.get("/api/docs/")
    assert (answer.status_code, answer["Location"]) == (302, "/admin/login/?next=/api/docs/")


def test_every_link_of_the_root_leads_somewhere(root: Client) -> None:
    told = root.get("/api/").json()
    assert told["user"] == "the-superuser"
    for name, address in told["links"].items():
        assert root.get(address).status_code == (405 if name == "import" else 200), name
