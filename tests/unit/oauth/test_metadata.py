"""Authorization server metadata and its use by browsers."""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import Any

import pytest
from django.test import Client as Browser

from mcp_app.egress import EgressFailed, Fetched, Policy
from mcp_app.oauth import announced
from mcp_app.oauth.announced import PUBLISHED, Fact
from mcp_app.oauth.machines.registration import Machine, create_machine
from tests.servers.live import eventually
from tests.unit.oauth.flow import ALL, BASE, HOST, METADATA_ADDRESSES
from tests.unit.oauth.test_machines import P256, pem


@pytest.mark.requirement("AUTH-13", "AUTH-24", "AUTH-27", "AUTH-28")
def test_metadata_is_same_at_every_address_without_database() -> None:
    found = [Browser(HTTP_HOST=HOST).get(address) for address in METADATA_ADDRESSES]
    assert {answer.status_code for answer in found} == {200}
    assert len({answer.content for answer in found}) == 1
    told = found[0].json()
    assert told["issuer"] == BASE
    assert told["code_challenge_methods_supported"] == ["S256"]
    assert "none" in told["token_endpoint_auth_methods_supported"]
    assert told["client_id_metadata_document_supported"] is True
    assert told["authorization_response_iss_parameter_supported"] is True
    assert told["response_types_supported"] == ["code"]
    assert told["grant_types_supported"] == ["authorization_code", "refresh_token", "client_credentials"]
    # Never mcp:admin: SDKs request every listed scope unless the user selects some.
    assert told["scopes_supported"] == [*ALL.split(), "offline_access"]
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
def test_issuer_follows_requested_loopback_host(host: str, issuer: str) -> None:
    assert Browser(HTTP_HOST=host).get(METADATA_ADDRESSES[0]).json()["issuer"] == issuer


@pytest.mark.requirement("AUTH-23")
@pytest.mark.parametrize("path", [*METADATA_ADDRESSES, "/oauth/token", "/oauth/register", "/oauth/revoke"])
def test_cookie_free_endpoints_allow_any_origin(path: str) -> None:
    asked = {"Origin": "http://localhost:6274", "Access-Control-Request-Method": "POST"}
    answer = Browser(HTTP_HOST=HOST).options(path, headers=asked)
    assert answer.status_code == 204
    assert answer["Access-Control-Allow-Origin"] == "*"
    assert "Access-Control-Allow-Credentials" not in answer
    assert "mcp-protocol-version" in answer["Access-Control-Allow-Headers"]


@pytest.mark.requirement("AUTH-23")
@pytest.mark.parametrize("path", ["/oauth/authorize", "/oauth/apps", "/accounts/login/"])
@pytest.mark.django_db
def test_pages_for_users_allow_no_other_origin(path: str) -> None:
    answer = Browser(HTTP_HOST=HOST).get(path, headers={"Origin": "http://localhost:6274"})
    assert "Access-Control-Allow-Origin" not in answer


def test_connect_page_mentions_login_only_with_oauth(settings: Any) -> None:
    page = Browser(HTTP_HOST=HOST).get("/connect/").content.decode()
    assert "opens your browser" in page
    settings.MCP = {**settings.MCP, "OAUTH": False}
    assert "opens your browser" not in Browser(HTTP_HOST=HOST).get("/connect/").content.decode()


@pytest.mark.requirement("AUTH-51")
@pytest.mark.django_db(transaction=True)
def test_signature_members_are_announced_only_while_a_machine_signs() -> None:
    def told() -> Any:
        announced.signing_machines.forget()
        return Browser(HTTP_HOST=HOST).get(METADATA_ADDRESSES[0]).json()

    members = {"token_endpoint_auth_signing_alg_values_supported"}
    members |= {"revocation_endpoint_auth_signing_alg_values_supported"}
    # The Python SDK from 1.9.0 to 1.12.3 rejects a document with one of these members.
    assert not members & set(told())
    assert "private_key_jwt" not in told()["token_endpoint_auth_methods_supported"]
    client, _ = create_machine(Machine("Signs", "private_key_jwt", ["mcp"], jwks=pem(P256)), actor=None)
    assert members <= set(told())
    assert "private_key_jwt" in told()["revocation_endpoint_auth_methods_supported"]
    type(client).objects.update(disabled_at="2026-01-01T00:00:00Z")
    assert not members & set(told())


AUTO, ON, OFF = "auto", "on", "off"


@pytest.mark.requirement("AUTH-28", "AUTH-41", "AUTH-43")
@pytest.mark.parametrize(
    ("documents", "hosts", "registration", "reachable", "is_told"),
    [
        (AUTO, ["*"], True, True, True),
        # Clients register instead.
        (AUTO, ["*"], True, False, False),
        # Clients of other hosts would be refused without a way to register.
        (AUTO, ["claude.ai", "vscode.dev"], True, True, False),
        (AUTO, ["*", "claude.ai"], True, True, True),
        # Clients have no other way.
        (AUTO, ["claude.ai"], False, False, True),
        (AUTO, ["*"], False, False, True),
        (ON, ["*"], True, False, True),
        (ON, ["claude.ai"], True, False, True),
        (OFF, ["*"], True, True, False),
        (OFF, ["*"], False, True, False),
        (AUTO, [], False, True, False),
        (ON, [], True, True, False),
    ],
)
def test_document_support_is_announced_if_usable(
    documents: str,
    hosts: list[str],
    registration: bool,
    reachable: bool,
    is_told: bool,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings.MCP = {
        **settings.MCP,
        "OAUTH_DOCUMENTS": documents,
        "OAUTH_DOCUMENT_HOSTS": hosts,
        "OAUTH_REGISTRATION": registration,
    }
    found = Fact(lambda: reachable, assumed=not reachable, yes_seconds=60.0, no_seconds=60.0)
    monkeypatch.setattr(announced, "reaches_documents", found)
    told = Browser(HTTP_HOST=HOST).get(METADATA_ADDRESSES[0]).json()
    assert told.get("client_id_metadata_document_supported", False) is is_told
    assert ("registration_endpoint" in told) is registration


def internet(reachable: Collection[str]) -> Any:
    """Return a fetch that gets an answer at some addresses only."""

    async def fetched(url: str, policy: Policy) -> Fetched:
        if url not in reachable:
            raise EgressFailed("No secure connection to the server could be made.")
        return Fetched(url, 403, "text/html", "", b"")

    return fetched


def test_publisher_is_reachable_if_answering() -> None:
    assert announced.unreachable(internet(reachable=PUBLISHED[:2])) == ["vscode.dev"]
    assert announced.unreachable(internet(reachable=PUBLISHED)) == []


def test_fact_is_computed_once_and_refreshed_in_background() -> None:
    answers = iter([True, False])
    asked, may_end = [], threading.Event()

    def find() -> bool:
        if asked:
            may_end.wait()
        asked.append(1)
        return next(answers)

    fact = Fact(find, assumed=False, yes_seconds=0.0, no_seconds=3_600.0)
    assert fact() is True
    # It is stale immediately; no caller waits for the second answer.
    assert fact() is True
    assert fact() is True
    may_end.set()
    eventually(lambda: fact() is False)
    assert len(asked) == 2


@pytest.mark.parametrize("assumed", [True, False])
def test_failing_fact_returns_assumed_value(assumed: bool) -> None:
    def find() -> bool:
        raise ConnectionError("away")

    assert Fact(find, assumed=assumed, yes_seconds=60.0, no_seconds=60.0)() is assumed
