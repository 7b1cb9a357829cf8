"""What programs read before they ask, and what browsers may do with it."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client as Browser

from tests.unit.oauth.flow import ALL, BASE, HOST

ADDRESSES = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")


@pytest.mark.requirement("AUTH-13", "AUTH-24", "AUTH-27", "AUTH-28")
def test_the_metadata_is_the_same_at_every_address_and_needs_no_database() -> None:
    found = [Browser(HTTP_HOST=HOST).get(address) for address in ADDRESSES]
    assert {answer.status_code for answer in found} == {200}
    assert found[0].content == found[1].content
    told = found[0].json()
    assert told["issuer"] == BASE
    assert told["code_challenge_methods_supported"] == ["S256"]
    assert "none" in told["token_endpoint_auth_methods_supported"]
    assert told["client_id_metadata_document_supported"] is True
    assert told["authorization_response_iss_parameter_supported"] is True
    assert told["response_types_supported"] == ["code"]
    assert told["grant_types_supported"] == ["authorization_code", "refresh_token", "client_credentials"]
    assert told["scopes_supported"] == [*ALL.split(), "mcp:admin", "offline_access"]
    for name in ("authorization", "token", "registration", "revocation"):
        assert told[f"{name}_endpoint"].startswith(BASE + "/oauth/")


@pytest.mark.parametrize(
    ("host", "issuer"),
    [
        ("127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("localhost:8000", "http://localhost:8000"),
        ("LOCALHOST:8000", "http://localhost:8000"),
        ("[::1]:8000", "http://[::1]:8000"),
        ("localhost:8001", BASE),
    ],
)
def test_who_types_another_name_of_this_machine_reads_that_name(host: str, issuer: str) -> None:
    assert Browser(HTTP_HOST=host).get(ADDRESSES[0]).json()["issuer"] == issuer


@pytest.mark.requirement("AUTH-23")
@pytest.mark.parametrize("path", [*ADDRESSES, "/oauth/token", "/oauth/register", "/oauth/revoke"])
def test_pages_of_any_origin_may_call_what_needs_no_cookie(path: str) -> None:
    asked = {"Origin": "http://localhost:6274", "Access-Control-Request-Method": "POST"}
    answer = Browser(HTTP_HOST=HOST).options(path, headers=asked)
    assert answer.status_code == 204
    assert answer["Access-Control-Allow-Origin"] == "*"
    assert "Access-Control-Allow-Credentials" not in answer
    assert "mcp-protocol-version" in answer["Access-Control-Allow-Headers"]


@pytest.mark.requirement("AUTH-23")
@pytest.mark.parametrize("path", ["/oauth/authorize", "/oauth/apps", "/accounts/login/"])
@pytest.mark.django_db
def test_pages_of_others_see_nothing_of_what_people_see(path: str) -> None:
    answer = Browser(HTTP_HOST=HOST).get(path, headers={"Origin": "http://localhost:6274"})
    assert "Access-Control-Allow-Origin" not in answer


def test_the_page_about_connecting_tells_of_the_login(settings: Any) -> None:
    page = Browser(HTTP_HOST=HOST).get("/connect/").content.decode()
    assert "it opens your browser" in page
    settings.MCP = {**settings.MCP, "OAUTH": False}
    assert "it opens your browser" not in Browser(HTTP_HOST=HOST).get("/connect/").content.decode()
