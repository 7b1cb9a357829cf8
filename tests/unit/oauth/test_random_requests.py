"""Random requests get a documented answer, no token and no redirect to a foreign site."""

from __future__ import annotations

import json
import os
import random
from typing import Any

import pytest

from mcp_app.oauth.models import AccessToken, Connection
from tests.unit.oauth.flow import CALLBACK, RESOURCE, Program, challenge

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]
NUMBER = int(os.environ.get("OAUTH_REQUESTS", "300"))
NAMES = (
    "client_id",
    "redirect_uri",
    "response_type",
    "scope",
    "state",
    "code_challenge",
    "code_challenge_method",
    "resource",
    "grant_type",
    "code",
    "code_verifier",
    "refresh_token",
    "client_secret",
    "token",
    "prompt",
    "response_mode",
    "claims",
    "request",
    "iss",
)
TOLD = {
    "invalid_request",
    "invalid_client",
    "invalid_grant",
    "unauthorized_client",
    "unsupported_grant_type",
    "invalid_scope",
    "invalid_target",
    "invalid_redirect_uri",
    "invalid_client_metadata",
    "temporarily_unavailable",
}


def values(program: Program) -> list[Any]:
    """Return values that are valid somewhere, and values that are valid nowhere."""
    return [
        program.client_id,
        CALLBACK,
        "code",
        "code token",
        "mcp mcp:tools",
        RESOURCE,
        "S256",
        "plain",
        challenge(program.verifier),
        program.verifier,
        "authorization_code",
        "refresh_token",
        "urn:ietf:params:oauth:grant-type:device_code",
        "mcpac_" + "x" * 43,
        "mcprt_" + "x" * 43,
        "https://evil.example/cb",
        "http://127.0.0.1:1/callback@evil.example",
        "https://127.0.0.1/metadata.json",
        "javascript:alert(1)",
        "//evil.example",
        "http://[::1",
        "%",
        "%zz",
        "\x00",
        "\r\nLocation: https://evil.example",
        "\u202e\ud7ff\U0001f600",
        "é" * 50,
        "a" * 3_000,
        "",
        " ",
        "none",
        "consent",
        "login",
        "[]",
        '{"a": 1}',
        ["code", "code"],
        [RESOURCE, "x"],
    ]


def test_random_request_gets_documented_answer_and_no_token(program: Program) -> None:
    chance = random.Random(20261123)
    known = values(program)
    for _ in range(NUMBER):
        said = {chance.choice(NAMES): chance.choice(known) for _ in range(chance.randint(0, 10))}
        if chance.random() < 0.5:
            said = {**program.query(), **{name: said[name] for name in list(said)[:2]}}
        path = chance.choice(("/oauth/authorize", "/oauth/token", "/oauth/revoke", "/oauth/register"))
        if path == "/oauth/authorize":
            asking = chance.choice((program.browser, program.wire))
            answer = asking.get(path, said)
            assert answer.status_code in (200, 302, 400), (said, answer.status_code)
            to = answer.headers.get("Location", "")
            assert to.startswith(("/accounts/login/", CALLBACK)) or not to, (said, to)
        elif path == "/oauth/register":
            body = (
                json.dumps(said) if chance.random() < 0.8 else chance.choice(("", "[", "null", "[[]]", '"'))
            )
            answer = program.wire.post(path, body, content_type="application/json")
            assert answer.status_code in (400, 413), (said, answer.content)
        else:
            answer = program.post(path, said)
            assert answer.status_code in (200, 400, 401, 413), (path, said)
            assert b"access_token" not in answer.content
        if answer.status_code != 200 and path != "/oauth/authorize" and answer.content:
            assert answer.json()["error"] in TOLD, (path, said, answer.content)
    assert not AccessToken.objects.exists()
    assert not Connection.objects.exists()
