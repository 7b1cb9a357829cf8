"""Replays of known clients: registration, authorization, code, two refreshes."""

from __future__ import annotations

import base64
from typing import Any

import orjson
import pytest
from django.test import Client as Browser

from mcp_app.egress.client import Fetched
from mcp_app.egress.policy import Policy
from mcp_app.models import AuditEvent
from mcp_app.oauth import registration
from mcp_app.oauth.connections import find_principal
from mcp_app.oauth.documents import find_or_fetch
from mcp_app.oauth.models import Client
from tests.unit.oauth.clients import KNOWN, PUBLISHED, Known
from tests.unit.oauth.flow import BASE, Program, sent_back

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]
GRANTS = ["authorization_code", "refresh_token"]


@pytest.mark.requirement("AUTH-32", "AUTH-33", "AUTH-44", "AUTH-47")
@pytest.mark.parametrize("known", KNOWN, ids=str)
def test_known_client_registers_connects_and_refreshes(browser: Browser, known: Known) -> None:
    program = Program(browser, "none yet", known.redirect_uri)
    answer = program.register(**known.said)
    assert answer.status_code == 201, answer.content
    told = answer.json()
    assert told["token_endpoint_auth_method"] == known.said["token_endpoint_auth_method"]
    assert len(told["redirect_uris"]) == known.keeps
    assert set(told["grant_types"]) == {"authorization_code", "refresh_token"}
    program.client_id = told["client_id"]
    row = Client.objects.get(client_id=program.client_id)
    assert row.redirect_uris.split() == told["redirect_uris"]
    way_back = program.decide(program.ask(scope=known.scope))
    assert way_back["Location"].startswith(known.redirect_uri)
    assert sent_back(way_back)["iss"] == BASE
    form = {
        "grant_type": "authorization_code",
        "code": sent_back(way_back)["code"],
        "redirect_uri": known.redirect_uri,
        "code_verifier": program.verifier,
    }
    tokens = ask(program, told, form)
    assert find_principal(tokens["access_token"]) is not None
    refresh = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
    if known.scope:
        refresh["scope"] = known.scope
    first, second = ask(program, told, refresh), ask(program, told, refresh)
    assert first["access_token"] == second["access_token"]
    assert find_principal(tokens["access_token"]) is not None
    noted = AuditEvent.objects.order_by("pk").values_list("action", "object_key")
    (connection,) = row.connections.all()
    assert list(noted) == [("oauth.client_register", row.client_id), ("oauth.allow", str(connection.pk))]


@pytest.mark.requirement("AUTH-09", "AUTH-35")
@pytest.mark.parametrize(
    "typed", ["http://127.0.0.1:8000/mcp/", "HTTP://LOCALHOST:8000/mcp", "http://127.0.0.1:8000/mcp?v=2"]
)
@pytest.mark.parametrize("known", KNOWN, ids=str)
def test_known_client_may_vary_resource_spelling_but_not_address(
    browser: Browser, known: Known, typed: str
) -> None:
    program = Program(browser, "none yet", known.redirect_uri)
    told = program.register(**known.said).json()
    program.client_id = told["client_id"]
    page = program.ask(scope=known.scope, resource=typed)
    if "?" in typed:
        # Shown to the user, or returned to a local program: never with a code.
        assert b"invalid_target" in page.content or "invalid_target" in page["Location"]
        return
    form = {
        "grant_type": "authorization_code",
        "code": sent_back(program.decide(page))["code"],
        "redirect_uri": known.redirect_uri,
        "code_verifier": program.verifier,
        "resource": typed,
    }
    tokens = ask(program, told, form)
    assert find_principal(tokens["access_token"]) is not None
    ask(
        program,
        told,
        {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"], "resource": typed},
    )


@pytest.mark.requirement("AUTH-32", "AUTH-41")
@pytest.mark.parametrize(
    ("address", "uris", "wanted"), [row[1:] for row in PUBLISHED], ids=[row[0] for row in PUBLISHED]
)
def test_known_client_connects_by_document(
    browser: Browser, address: str, uris: list[str], wanted: str
) -> None:
    said = {"client_id": address, "client_name": "Published", "redirect_uris": uris, "grant_types": GRANTS}

    async def fetched(url: str, policy: Policy) -> Fetched:
        return Fetched(url, 200, "application/json", "", orjson.dumps(said))

    find_or_fetch(address, fetched)
    program = Program(browser, address, wanted)
    tokens = program.connect()
    assert find_principal(tokens["access_token"]) is not None
    first, second = (program.refresh(tokens["refresh_token"]).json() for _ in range(2))
    assert first["access_token"] == second["access_token"]
    row = Client.objects.get(client_id=address)
    assert (row.registration_source, row.redirect_uris.split()) == ("cimd", uris)


def ask(program: Program, told: dict[str, Any], form: dict[str, str]) -> dict[str, Any]:
    """Return the tokens, requested with the authentication method assigned to the client."""
    headers = {}
    if told["token_endpoint_auth_method"] == "client_secret_basic":
        pair = f"{told['client_id']}:{told['client_secret']}".encode()
        headers["Authorization"] = "Basic " + base64.b64encode(pair).decode()
    else:
        form = {**form, "client_id": told["client_id"]}
        if "client_secret" in told:
            form["client_secret"] = told["client_secret"]
    answer = program.post("/oauth/token", form, headers=headers)
    assert answer.status_code == 200, answer.content
    return dict(answer.json())


@pytest.mark.requirement("AUTH-44")
@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"redirect_uris": None}, "invalid_redirect_uri"),
        ({"redirect_uris": []}, "invalid_redirect_uri"),
        ({"redirect_uris": "https://a.example/"}, "invalid_redirect_uri"),
        ({"redirect_uris": [f"https://a.example/{n}" for n in range(11)]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["http://evil.example/cb"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["javascript:alert(1)"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["data:text/html,x", "file:///etc/passwd", "blob:x"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://a.example/#part"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://u:p@a.example/"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://*.example/"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://a.example/" + "x" * 1_000]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://a.example/\u0000"]}, "invalid_redirect_uri"),
        ({"redirect_uris": [7, {"a": 1}]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://[bad/"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://a.example;sandbox/"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://claude.ai,a.example/"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://claude%2eai/"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://'self'/"]}, "invalid_redirect_uri"),
        ({"grant_types": ["client_credentials"]}, "invalid_client_metadata"),
        ({"grant_types": "authorization_code"}, "invalid_client_metadata"),
        ({"response_types": ["token"]}, "invalid_client_metadata"),
        ({"token_endpoint_auth_method": "private_key_jwt"}, "invalid_client_metadata"),
        ({"token_endpoint_auth_method": ["none"]}, "invalid_client_metadata"),
    ],
)
def test_invalid_registration_is_refused(program: Program, changed: dict[str, Any], error: str) -> None:
    before = Client.objects.count()
    answer = program.register(**changed)
    assert (answer.status_code, answer.json()["error"]) == (400, error), answer.content
    assert Client.objects.count() == before


@pytest.mark.parametrize(
    ("body", "status"), [(b"", 400), (b"[]", 400), (b"{", 400), (b'"text"', 400), (b" " * 9_000, 413)]
)
def test_malformed_registration_body_is_refused(program: Program, body: bytes, status: int) -> None:
    answer = program.wire.post("/oauth/register", body, content_type="application/json")
    assert (answer.status_code, answer.json()["error"]) == (status, "invalid_client_metadata")


@pytest.mark.requirement("AUTH-45")
def test_identical_registration_from_same_network_reuses_public_client(program: Program) -> None:
    assert program.register().json()["client_id"] == program.client_id
    assert program.register(client_name="Another").json()["client_id"] != program.client_id
    secret = {"token_endpoint_auth_method": "client_secret_post"}
    first, second = (program.register(**secret).json() for _ in range(2))
    assert first["client_id"] != second["client_id"]


@pytest.mark.requirement("AUTH-45")
def test_registrations_differing_by_loopback_port_share_client(browser: Browser) -> None:
    # Codex, Gemini CLI, FastMCP and Claude Code use another free port at each login.
    wire = Program(browser, "none yet")

    def registered(*uris: str, **more: Any) -> dict[str, Any]:
        answer = wire.register(redirect_uris=list(uris), **more)
        assert answer.status_code == 201, answer.content
        return dict(answer.json())

    first = registered("http://127.0.0.1:1111/callback")
    again = registered("http://127.0.0.1:2222/callback")
    assert again["client_id"] == first["client_id"]
    # Clients read the address to use from here.
    assert again["redirect_uris"] == ["http://127.0.0.1:2222/callback"]
    for port in (1111, 2222, 3333):
        address = f"http://127.0.0.1:{port}/callback"
        assert Program(browser, first["client_id"], address).connect()["access_token"]
    others = [
        registered("http://127.0.0.1:1111/other"),
        registered("http://localhost:1111/callback"),
        registered("https://127.0.0.1:1111/callback"),
        registered("http://127.0.0.1:1111/callback?a=b"),
        registered("http://127.0.0.1:1111/callback", client_name="Another"),
        # A secret is shown only once, so an identical registration must get a new one.
        registered("http://127.0.0.1:1111/callback", token_endpoint_auth_method="client_secret_post"),
        registered("http://127.0.0.1:2222/callback", token_endpoint_auth_method="client_secret_post"),
    ]
    assert len({told["client_id"] for told in (first, *others)}) == len(others) + 1
    assert others[-1]["client_secret"] != others[-2]["client_secret"]


@pytest.mark.requirement("AUTH-44")
@pytest.mark.parametrize("absent", [None, "", [], "left out"])
@pytest.mark.parametrize("member", ["token_endpoint_auth_method", "grant_types", "response_types", "scope"])
def test_empty_registration_member_equals_absent_member(program: Program, member: str, absent: Any) -> None:
    said = {} if absent == "left out" else {member: absent}
    told = program.register(**said).json()
    assert told["client_id"] == program.client_id
    assert told["token_endpoint_auth_method"] == "none"
    assert "client_secret" not in told


@pytest.mark.requirement("AUTH-44")
def test_registration_limit_counts_only_new_clients(program: Program, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "OAUTH_REGISTRATIONS_PER_HOUR": 2}
    for port in range(2_000, 2_005):
        again = program.register(redirect_uris=[f"http://127.0.0.1:{port}/callback"])
        assert again.json()["client_id"] == program.client_id
    assert program.register(client_name="Second").status_code == 201
    refused = program.register(client_name="Third")
    assert refused.status_code == 429
    assert "OAUTH_REGISTRATIONS_PER_HOUR" in refused.json()["error_description"]
    assert program.register().status_code == 201
    settings.MCP = {**settings.MCP, "OAUTH_REGISTRATIONS_PER_HOUR": 0}
    assert program.register(client_name="Third").status_code == 201


@pytest.mark.requirement("AUTH-44")
def test_registrations_are_rate_limited_per_network(program: Program) -> None:
    answers = [program.register(client_name=f"Number {number}") for number in range(20)]
    assert [answer.status_code for answer in answers].count(201) == 19  # The fixture registered one.
    assert answers[-1].status_code == 429
    assert answers[-1]["Retry-After"]
    elsewhere = Browser(HTTP_HOST=program.wire.defaults["HTTP_HOST"], REMOTE_ADDR="203.0.113.7")
    program.wire = elsewhere
    assert program.register(client_name="From elsewhere").status_code == 201


@pytest.mark.requirement("AUTH-44")
def test_unused_clients_are_bounded(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "MAX_UNUSED", 3)
    program.connect()
    answers = [program.register(client_name=f"Number {number}") for number in range(4)]
    assert [answer.status_code for answer in answers] == [201, 201, 201, 503]
    assert answers[-1]["Retry-After"]


@pytest.mark.requirement("AUTH-28", "AUTH-44")
def test_registration_can_be_disabled(program: Program, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "OAUTH_REGISTRATION": False}
    assert program.register().status_code == 403
    told = program.wire.get("/.well-known/oauth-authorization-server").json()
    assert "registration_endpoint" not in told
