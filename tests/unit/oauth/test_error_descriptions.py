"""Every refusal explains problem and remedy; none repeats a secret."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client as Browser

from mcp_app.oauth.connections import GRACE_SECONDS
from mcp_app.oauth.error_descriptions import explained
from mcp_app.oauth.machines.registration import Machine, create_machine
from mcp_app.oauth.models import AuthorizationCode, Client, RefreshToken
from tests.unit.oauth.flow import ALL, BASE, FORM, HOST, RESOURCE, Program, sent_back

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]
# RFC 6749 section 5.2.
WORDS = re.compile(r"[\x20\x21\x23-\x5b\x5d-\x7e]{20,}")
SECRET = "mcprt_" + "secret" * 8
OTHER = "https://other.example/mcp"


def code(program: Program, **changed: Any) -> Any:
    """Return the answer to an invalid code request."""
    return program.exchange(program.code(), **changed)


def used_code(program: Program) -> Any:
    given = program.code()
    assert program.exchange(given).status_code == 200
    return program.exchange(given)


def old_code(program: Program) -> Any:
    given = program.code()
    AuthorizationCode.objects.update(expires_at="2026-01-01T00:00:00Z")
    return program.exchange(given)


def refresh(program: Program, **changed: Any) -> Any:
    return program.refresh(program.connect()["refresh_token"], **changed)


def reused_refresh(program: Program) -> Any:
    token = program.connect()["refresh_token"]
    program.refresh(token)
    RefreshToken.objects.filter(used_at__isnull=False).update(used_at="2026-01-01T00:00:00Z")
    assert GRACE_SECONDS < 3_600
    return program.refresh(token)


def switched_off(program: Program) -> Any:
    token = program.connect()["refresh_token"]
    Client.objects.update(disabled_at="2026-01-01T00:00:00Z")
    return program.refresh(token)


def machine(program: Program, **form: Any) -> Any:
    client, secret = create_machine(Machine("m", "client_secret_post", ["mcp:tools"]), actor=None)
    said = {"client_id": client.client_id, "client_secret": secret, "grant_type": "client_credentials"}
    return program.token(**{**said, "resource": RESOURCE, **form})


def secret_client(program: Program, **form: Any) -> Any:
    told = program.register(token_endpoint_auth_method="client_secret_post").json()
    said = {"client_id": told["client_id"], "grant_type": "refresh_token", "refresh_token": SECRET}
    return program.token(**{**said, **form})


def raw(path: str, body: bytes, kind: str = FORM, method: str = "post") -> Callable[[Program], Any]:
    return lambda program: program.wire.generic(method.upper(), path, body, content_type=kind)


def revoke(program: Program, **form: Any) -> Any:
    return program.post("/oauth/revoke", {"client_id": program.client_id, **form})


def registered(program: Program, **said: Any) -> Any:
    return program.register(**said)


TOKEN, REVOKE, REGISTER = "/oauth/token", "/oauth/revoke", "/oauth/register"
# Request, error, a word of the problem, a word of the remedy.
REFUSED: list[tuple[str, Callable[[Program], Any], str, str, str]] = [
    ("not a form", raw(TOKEN, b"{}", "application/json"), "invalid_request", "body", FORM),
    ("oversized form", raw(TOKEN, b"a=" + b"b" * 20_000), "invalid_request", "too large", "at most"),
    ("undecodable form", raw(TOKEN, b"grant_type=%00"), "invalid_request", "read", "NUL"),
    ("GET", raw(TOKEN, b"", method="get"), "invalid_request", "method", "POST"),
    ("missing grant", lambda p: p.token(), "unsupported_grant_type", "grant_type", "authorization_code"),
    ("password", lambda p: p.token(grant_type="password"),
     "unsupported_grant_type", "grant", "refresh_token"),
    ("no code", lambda p: p.token(grant_type="authorization_code"), "invalid_request", "no code", "Send"),
    ("unknown code", lambda p: p.exchange(SECRET), "invalid_grant", "unknown", "log in"),
    ("two redirect URIs", lambda p: code(p, redirect_uri=["a", "b"]), "invalid_request", "Duplicate", "once"),
    ("reused code", used_code, "invalid_grant", "used", "log in"),
    ("expired code", old_code, "invalid_grant", "60 seconds", "log in"),
    ("missing verifier", lambda p: code(p, code_verifier=None), "invalid_grant", "missing", "43"),
    ("short verifier", lambda p: code(p, code_verifier="short"), "invalid_grant", "malformed", "43"),
    ("wrong verifier", lambda p: code(p, code_verifier="x" * 43), "invalid_grant", "code_verifier", "log in"),
    ("wrong redirect", lambda p: code(p, redirect_uri=OTHER), "invalid_request", "address", "add it again"),
    ("wrong resource", lambda p: code(p, resource=OTHER), "invalid_target", "resource", RESOURCE),
    ("unknown client", lambda p: code(p, client_id="unknown"), "invalid_client", "unknown", "Register"),
    ("missing client", lambda p: code(p, client_id=None), "invalid_client", "unknown", "Register"),
    ("machine grant", lambda p: p.token(grant_type="client_credentials"),
     "invalid_client", "unknown", "Register"),
    ("missing refresh token", lambda p: p.token(grant_type="refresh_token"),
     "invalid_request", "no refresh", "Send"),
    ("unknown refresh token", lambda p: p.refresh(SECRET), "invalid_grant", "unknown", "Log in"),
    ("reused refresh token", reused_refresh, "invalid_grant", "used before", "Log in"),
    ("disabled client", switched_off, "invalid_client", "disabled", "administrator"),
    ("scope not granted", lambda p: refresh(p, scope="mcp:admin"), "invalid_scope", "none", "log in"),
    ("refresh, wrong resource", lambda p: refresh(p, resource=OTHER), "invalid_target", "resource", RESOURCE),
    ("missing secret", secret_client, "invalid_client", "secret", "administrator"),
    ("wrong secret", lambda p: secret_client(p, client_secret=SECRET),
     "invalid_client", "secret", "Register"),
    ("machine, no resource", lambda p: machine(p, resource=None), "invalid_target", "resource", RESOURCE),
    ("machine, wrong resource", lambda p: machine(p, resource=OTHER), "invalid_target", "resource", RESOURCE),
    ("machine, scope", lambda p: machine(p, scope="mcp:admin"), "invalid_scope", "none", "administrator"),
    ("machine, unknown scope", lambda p: machine(p, scope="x"), "invalid_scope", "none", "Omit"),
    ("machine, secret", lambda p: machine(p, client_secret=SECRET),
     "invalid_client", "secret", "administrator"),
    ("machine, code", lambda p: machine(p, grant_type="refresh_token", refresh_token=SECRET),
     "unauthorized_client", "may not", "client_credentials"),
    ("revoke: empty", revoke, "invalid_request", "no token", "Send"),
    ("revoke: unknown client", lambda p: revoke(p, token=SECRET, client_id="x"),
     "invalid_client", "unknown", "Register"),
    ("revoke: in URL", lambda p: p.post("/oauth/revoke?a=b", {"token": SECRET, "client_id": p.client_id}),
     "invalid_request", "address", "body"),
    ("revoke: not a form", raw(REVOKE, b"{}", "application/json"), "invalid_request", "body", FORM),
    ("register: not an object", raw(REGISTER, b"[]", "application/json"),
     "invalid_client_metadata", "body", "object"),
    ("register: oversized", raw(REGISTER, b" " * 9_000, "application/json"),
     "invalid_client_metadata", "large", "most"),
    ("register: missing redirect URI", lambda p: registered(p, redirect_uris=[]),
     "invalid_redirect_uri", "must be", "list"),
    ("register: too many URIs", lambda p: registered(p, redirect_uris=[f"{BASE}/{n}" for n in range(11)]),
     "invalid_redirect_uri", "at most", "10"),
    ("register: scheme", lambda p: registered(p, redirect_uris=["app://x"]),
     "invalid_redirect_uri", "not allowed",
     "OAUTH_REDIRECT_URIS"),
    ("register: plain", lambda p: registered(p, redirect_uris=["http://a.example/"]), "invalid_redirect_uri",
     "this machine only", "127.0.0.1"),
    ("register: grants", lambda p: registered(p, grant_types=["implicit"]),
     "invalid_client_metadata", "must have",
     "authorization_code"),
    ("register: responses", lambda p: registered(p, response_types=["token"]), "invalid_client_metadata",
     "must have", "code"),
    ("register: key", lambda p: registered(p, token_endpoint_auth_method="private_key_jwt"),
     "invalid_client_metadata", "must be one of none", "administrator"),
]  # fmt: skip


@pytest.mark.requirement("AUTH-37")
@pytest.mark.parametrize(
    ("asked", "error", "problem", "remedy"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_token_error_explains_problem_and_remedy(
    program: Program, asked: Callable[[Program], Any], error: str, problem: str, remedy: str
) -> None:
    answer = asked(program)
    assert answer.status_code >= 400
    told = answer.json()
    assert told["error"] == error, told
    check(told["error_description"], problem, remedy)


def check(words: str, problem: str, remedy: str) -> None:
    """Check that problem and remedy are present, in allowed characters, without secrets."""
    assert WORDS.fullmatch(words), words
    assert problem in words
    assert remedy in words
    assert SECRET not in words


SENT_BACK = [
    ({"response_type": "token"}, "unsupported_response_type", "not supported", "response_type=code"),
    ({"response_type": "code token"}, "unauthorized_client", "may not", "response_type=code"),
    ({"response_type": None}, "invalid_request", "no response_type", "response_type=code"),
    ({"code_challenge": None}, "invalid_request", "no code_challenge", "S256"),
    ({"code_challenge": "short"}, "invalid_request", "code_challenge", "SHA-256"),
    ({"code_challenge_method": "plain"}, "invalid_request", "not supported", "S256"),
    ({"resource": OTHER}, "invalid_target", "resource", RESOURCE),
]


@pytest.mark.requirement("AUTH-39")
@pytest.mark.parametrize(("changed", "error", "problem", "remedy"), SENT_BACK)
def test_authorization_error_explains_problem_and_remedy(
    program: Program, changed: dict[str, Any], error: str, problem: str, remedy: str
) -> None:
    told = sent_back(program.ask(**changed))
    assert told["error"] == error
    check(told["error_description"], problem, remedy)
    # At an untrusted address, the page shows the same.
    stranger = Program(program.browser, redirect_uri="https://stranger.example/callback")
    page = stranger.ask(**changed)
    assert page.status_code == 400
    for words in (error, problem, remedy):
        assert words in page.content.decode()


@pytest.mark.requirement("AUTH-39")
@pytest.mark.parametrize(
    ("changed", "problem", "remedy"),
    [
        ({"client_id": None}, "no client_id", "add it again"),
        ({"client_id": "unknown"}, "unknown", "add it again"),
        ({"client_id": "https://127.0.0.1/c.json"}, "could not be read", "OAUTH_DOCUMENTS"),
        ({"client_id": "https://client.example/"}, "must be", "https address with a path"),
        ({"redirect_uri": OTHER}, "did not register", "add it again"),
        ({"redirect_uri": None}, "no redirect_uri", "add it again"),
        ({"redirect_uri": ["http://a.example/", OTHER]}, "Duplicate", "once"),
        ({"state": "x" * 9_000}, "too long", "Start again"),
    ],
)
def test_error_page_explains_problem_and_remedy(
    program: Program, changed: dict[str, Any], problem: str, remedy: str
) -> None:
    # With two registered addresses, the request must name one.
    two = program.register(client_name="Two", redirect_uris=[program.redirect_uri, BASE + "/two"]).json()
    program.client_id = two["client_id"]
    page = program.ask(**changed)
    assert page.status_code == 400
    text = page.content.decode()
    assert problem in text
    assert remedy in text


def test_denial_is_explained(program: Program) -> None:
    told = sent_back(program.decide(program.ask(), "deny"))
    check(told["error_description"], "denied", "Try again")


def test_unaccepted_host_and_disabled_registration_name_administrator(
    program: Program, settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "OAUTH_DOCUMENT_HOSTS": ["a.example"], "OAUTH_REGISTRATION": False}
    page = program.ask(client_id="https://b.example/c.json").content.decode()
    assert "does not let clients of b.example connect" in page
    assert "administrator" in page
    refused = program.register().json()
    check(refused["error_description"], "cannot register", "administrator")


@pytest.mark.parametrize(
    "error",
    ["invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type",
     "unsupported_token_type", "unsupported_response_type", "invalid_scope", "access_denied", "server_error",
     "an_error_of_tomorrow"],
)  # fmt: skip
def test_every_error_has_description(error: str) -> None:
    for grant in ("", "authorization_code", "refresh_token", "client_credentials", SECRET):
        check(explained(error, None, grant), "", "")


@pytest.mark.requirement("AUTH-50")
@pytest.mark.parametrize("asked", ["claudeai", "read write", "unknown", "openid", "user:read claudeai"])
def test_unknown_scopes_are_replaced_by_basic_scopes(program: Program, asked: str) -> None:
    page = program.ask(scope=asked).content.decode()
    assert "Call tools" in page
    assert "Administer" not in page
    tokens = program.connect(scope=asked)
    assert tokens["scope"] == ALL
    assert program.refresh(tokens["refresh_token"], scope=asked).json()["scope"] == ALL


def test_basic_authentication_error_is_explained() -> None:
    wire = Browser(HTTP_HOST=HOST)
    form = urlencode({"grant_type": "refresh_token", "refresh_token": SECRET})
    answer = wire.post(TOKEN, form, content_type=FORM, headers={"Authorization": "Basic eDp5"})
    assert answer.status_code == 401
    check(json.loads(answer.content)["error_description"], "unknown", "Register")
