"""Codes and tokens: single use, expiry, audience, scope; reuse ends the connection."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone

from mcp_app.models import AuditEvent
from mcp_app.oauth import connections
from mcp_app.oauth.connections import find_principal
from mcp_app.oauth.models import AuthorizationCode, Client, Connection, RefreshToken
from tests.unit.oauth.flow import BASE, RESOURCE, Program

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]


def later(model: Any, field: str, seconds: float) -> None:
    """Age each row by that many seconds."""
    for row in model.objects.exclude(**{field: None}):
        setattr(row, field, getattr(row, field) - timedelta(seconds=seconds))
        row.save()


@pytest.mark.requirement("AUTH-31")
def test_reused_code_is_refused_and_revokes_its_tokens(program: Program) -> None:
    code = program.code()
    tokens = program.exchange(code).json()
    answer = program.exchange(code)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")
    assert find_principal(tokens["access_token"]) is None
    assert program.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"
    assert AuditEvent.objects.filter(action="oauth.code_reused").count() == 1


@pytest.mark.requirement("AUTH-31")
def test_code_expires_after_a_minute(program: Program) -> None:
    code = program.code()
    later(AuthorizationCode, "expires_at", 61)
    assert program.exchange(code).json()["error"] == "invalid_grant"


@pytest.mark.requirement("AUTH-30", "AUTH-31")
@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"code_verifier": "x" * 43}, "invalid_grant"),
        ({"code_verifier": "short"}, "invalid_grant"),
        ({"code_verifier": "x" * 129}, "invalid_grant"),
        ({"code_verifier": None}, "invalid_grant"),
        ({"code": "mcpac_unknown"}, "invalid_grant"),
        ({"code": "\x00"}, "invalid_request"),
        ({"code": None}, "invalid_request"),
        ({"client_id": "unknown"}, "invalid_client"),
        ({"client_id": "a\x00b"}, "invalid_request"),
        ({"client_id": None}, "invalid_client"),
        ({"client_secret": "guessed"}, "invalid_client"),
        ({"redirect_uri": "http://127.0.0.1:33419/callback"}, "invalid_request"),
        ({"redirect_uri": ["http://127.0.0.1:33418/callback"] * 2}, "invalid_request"),
        ({"resource": "https://other.example/mcp"}, "invalid_target"),
        ({"resource": [RESOURCE, "https://other.example/mcp"]}, "invalid_target"),
        ({"resource": RESOURCE + "#part"}, "invalid_target"),
        ({"grant_type": "password"}, "unsupported_grant_type"),
        ({"grant_type": "client_credentials"}, "invalid_client"),
        ({"grant_type": None}, "unsupported_grant_type"),
    ],
)
def test_invalid_code_exchange_returns_error_and_no_token(
    program: Program, changed: dict[str, Any], error: str
) -> None:
    answer = program.exchange(program.code(), **changed)
    assert (answer.status_code, answer.json()["error"]) == (400, error), answer.content
    assert not RefreshToken.objects.exists()


@pytest.mark.requirement("AUTH-32")
def test_code_of_one_client_is_refused_for_another(program: Program) -> None:
    code = program.code()
    other = program.register(client_name="Another").json()["client_id"]
    assert program.exchange(code, client_id=other).json()["error"] == "invalid_grant"


@pytest.mark.requirement("AUTH-35")
@pytest.mark.parametrize(
    "named",
    [None, RESOURCE, RESOURCE + "/", "HTTP://127.0.0.1:8000/mcp", "http://localhost:8000/mcp", f"{BASE}/sse"],
)
def test_token_audience_is_canonical_for_any_resource_spelling(program: Program, named: str | None) -> None:
    tokens = program.exchange(program.code(resource=named), resource=named).json()
    principal = find_principal(tokens["access_token"])
    assert principal is not None
    assert principal.audience == RESOURCE


@pytest.mark.requirement("AUTH-07")
def test_token_for_former_public_url_is_refused(program: Program, settings: Any) -> None:
    tokens = program.connect()
    settings.MCP = {**settings.MCP, "PUBLIC_URL": "https://moved.example"}
    assert find_principal(tokens["access_token"]) is None


@pytest.mark.requirement("AUTH-36")
def test_refresh_returns_new_pair_and_keeps_access_token_valid(program: Program) -> None:
    tokens = program.connect()
    renewed = program.refresh(tokens["refresh_token"]).json()
    assert renewed["refresh_token"] != tokens["refresh_token"]
    assert find_principal(tokens["access_token"]) is not None
    assert find_principal(renewed["access_token"]) is not None
    assert "scope" in renewed


@pytest.mark.requirement("AUTH-36")
def test_refresh_repeated_within_grace_returns_same_pair(program: Program) -> None:
    first = program.connect()["refresh_token"]
    renewed = program.refresh(first).json()
    later(RefreshToken, "used_at", connections.GRACE_SECONDS - 60)
    again = program.refresh(first).json()
    assert {**again, "expires_in": 0} == {**renewed, "expires_in": 0}
    assert again["expires_in"] <= renewed["expires_in"]


@pytest.mark.requirement("AUTH-36")
def test_refresh_repeated_after_grace_ends_connection(program: Program) -> None:
    first = program.connect()["refresh_token"]
    renewed = program.refresh(first).json()
    later(RefreshToken, "used_at", connections.GRACE_SECONDS + 1)
    assert program.refresh(first).json()["error"] == "invalid_grant"
    assert find_principal(renewed["access_token"]) is None
    assert program.refresh(renewed["refresh_token"]).json()["error"] == "invalid_grant"
    assert AuditEvent.objects.filter(action="oauth.refresh_reused").count() == 1


@pytest.mark.requirement("AUTH-36")
def test_refresh_loop_is_rate_limited_and_reuse_ends_connection(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "REFRESHES_PER_HOUR", 5)
    newest = first = program.connect()
    for _ in range(5):
        newest = program.refresh(newest["refresh_token"]).json()
    refused = program.refresh(newest["refresh_token"])
    assert (refused.status_code, refused.json()["error"]) == (429, "temporarily_unavailable")
    assert refused["Retry-After"] == "60"
    assert RefreshToken.objects.count() == 6
    assert find_principal(newest["access_token"]) is not None
    later(RefreshToken, "used_at", 3_600)
    assert program.refresh(newest["refresh_token"]).status_code == 200
    assert program.refresh(first["refresh_token"]).json()["error"] == "invalid_grant"
    assert AuditEvent.objects.filter(action="oauth.refresh_reused").exists()


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ("mcp", "mcp"),
        ("mcp mcp:tools offline_access", "mcp mcp:tools"),
        ("openid offline_access", "mcp mcp:tools mcp:resources mcp:prompts"),
        ("mcp mcp:admin", "mcp"),
    ],
)
def test_refresh_may_narrow_but_never_widen_scope(program: Program, asked: str, given: str) -> None:
    token = program.connect()["refresh_token"]
    assert program.refresh(token, scope=asked).json()["scope"] == given


def test_refresh_for_ungranted_scope_only_is_refused(program: Program) -> None:
    token = program.connect()["refresh_token"]
    assert program.refresh(token, scope="mcp:admin").json()["error"] == "invalid_scope"


def closed_account(connection: Connection) -> None:
    get_user_model().objects.filter(pk=connection.user_id).update(is_active=False)


def gone_client(connection: Connection) -> None:
    connections.disable(connection.client, actor=None)


def over(connection: Connection) -> None:
    Connection.objects.filter(pk=connection.pk).update(ends_at=timezone.now())


def ended(connection: Connection) -> None:
    connections.end(connection, "test")


@pytest.mark.requirement("AUTH-03")
@pytest.mark.parametrize("spoil", [closed_account, gone_client, over, ended])
def test_ended_connection_invalidates_all_its_tokens(program: Program, spoil: Any) -> None:
    tokens = program.connect()
    spoil(Connection.objects.get())
    assert find_principal(tokens["access_token"]) is None
    answer = program.refresh(tokens["refresh_token"])
    assert (answer.status_code, answer.json()["error"]) in ((400, "invalid_grant"), (400, "invalid_client"))


@pytest.mark.requirement("AUTH-38")
@pytest.mark.parametrize("which", ["access_token", "refresh_token"])
def test_revoking_any_token_ends_connection_and_unknown_token_is_ok(program: Program, which: str) -> None:
    tokens = program.connect()
    form = {"client_id": program.client_id, "token": tokens[which]}
    assert program.post("/oauth/revoke", form).status_code == 200
    assert find_principal(tokens["access_token"]) is None
    assert program.post("/oauth/revoke", form).status_code == 200
    assert program.post("/oauth/revoke", {**form, "token": "mcpat_unknown"}).status_code == 200


def test_revocation_by_another_client_has_no_effect(program: Program) -> None:
    tokens = program.connect()
    other = program.register(client_name="Another").json()["client_id"]
    program.post("/oauth/revoke", {"client_id": other, "token": tokens["access_token"]})
    assert find_principal(tokens["access_token"]) is not None


@pytest.mark.requirement("AUTH-37")
def test_wrong_secret_returns_401_only_for_basic_header(program: Program) -> None:
    said = {"redirect_uris": [program.redirect_uri], "token_endpoint_auth_method": "client_secret_basic"}
    known = program.register(**said).json()
    assert Client.objects.get(client_id=known["client_id"]).client_secret != known["client_secret"]
    form = {"grant_type": "authorization_code", "code": "mcpac_x", "client_id": known["client_id"]}
    by_header = program.post("/oauth/token", form, headers={"Authorization": "Basic " + "eDp5"})
    by_form = program.post("/oauth/token", {**form, "client_secret": "wrong"})
    assert (by_header.status_code, by_form.status_code) == (401, 400)
    assert by_header.json()["error"] == by_form.json()["error"] == "invalid_client"
    assert by_header["WWW-Authenticate"].startswith("Basic")


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        (b"", "application/x-www-form-urlencoded", 400),
        (b"{}", "application/json", 400),
        (b"%ff=%fe&grant_type=%00", "application/x-www-form-urlencoded", 400),
        (b"a" * 20_000, "application/x-www-form-urlencoded", 413),
        (b"&".join(b"a=1" for _ in range(3_000)), "application/x-www-form-urlencoded", 400),
    ],
)
@pytest.mark.parametrize("path", ["/oauth/token", "/oauth/revoke"])
def test_malformed_form_body_returns_oauth_error(
    program: Program, path: str, body: bytes, content_type: str, status: int
) -> None:
    answer = program.wire.post(path, body, content_type=content_type)
    assert answer.status_code == status
    assert "error" in answer.json()
