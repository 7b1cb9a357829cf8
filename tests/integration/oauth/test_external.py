"""Two web processes that accept tokens of an identity provider in another process."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator

import httpx2
import pytest

from tests.bounds import SLACK
from tests.integration.oauth.test_doors import HEADERS, asked, told
from tests.servers.identity_provider import IdentityProvider
from tests.servers.live import LiveServer

pytestmark = [pytest.mark.process]
AUDIENCE = "api://tools"


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    """Start an identity provider whose groups are operators of the server."""
    with IdentityProvider("/realms/main") as running:
        yield running


@pytest.fixture(scope="module")
def server(provider: IdentityProvider) -> Iterator[LiveServer]:
    """Start a server without API keys, which accepts provider tokens only."""
    env = {
        "MCP_AUTH": "external",
        "OAUTH_ISSUER": provider.issuer,
        "OAUTH_AUDIENCE": AUDIENCE,
        "OAUTH_GROUPS": json.dumps({"ops": "MCP operator"}),
        "API_KEYS": "off",
        "EGRESS_ALLOW": "127.0.0.0/8",
    }
    with LiveServer(web_processes=2, env=env) as running:
        yield running


@pytest.mark.requirement("AUTH-01", "AUTH-03", "AUTH-04")
@pytest.mark.parametrize("path", ["/mcp", "/sse", "/messages/", "/metrics"])
def test_every_endpoint_names_metadata_with_the_provider(
    server: LiveServer, provider: IdentityProvider, path: str
) -> None:
    method = "POST" if path in ("/mcp", "/messages/") else "GET"
    for bad in ("", provider.token(aud="https://other.example")):
        headers = {**HEADERS, **({"Authorization": f"Bearer {bad}"} if bad else {})}
        answer = httpx2.request(method, f"http://127.0.0.1:{server.port}{path}", headers=headers, timeout=120)
        assert answer.status_code == 401
        parts = told(answer)
        assert parts.get("error") == ("invalid_token" if bad else None)
        document = httpx2.get(parts["resource_metadata"], timeout=120).json()
        assert document["authorization_servers"] == [provider.issuer]


def test_provider_token_calls_tools_at_every_process_and_is_not_logged(
    server: LiveServer, provider: IdentityProvider
) -> None:
    token = provider.token(aud=AUDIENCE, sub="both")
    for _ in range(6):
        answer = asked(server, "tools/call", token, name="add", arguments={"a": 2, "b": 3})
        assert answer.json()["result"]["structuredContent"] == {"result": 5}
    refused = asked(server, "tools/call", provider.token(aud=AUDIENCE, scope="mcp"), name="add", arguments={})
    assert (refused.status_code, told(refused)["error"]) == (403, "insufficient_scope")
    assert not any(part in server.logs() for part in token.split("."))


def test_provider_operator_group_may_read_metrics(server: LiveServer, provider: IdentityProvider) -> None:
    for groups, status in (([], 403), (["ops"], 200)):
        token = provider.token(aud=AUDIENCE, sub=f"ops-{status}", scope="mcp:admin", groups=groups)
        assert asked(server, "", token, "/metrics").status_code == status


@pytest.mark.requirement("AUTH-18")
def test_open_stream_ends_with_its_provider_token(server: LiveServer, provider: IdentityProvider) -> None:
    lasts = 4
    # Clock skew of a minute is allowed.
    token = provider.token(aud=AUDIENCE, exp=int(time.time()) - 60 + lasts)
    opened, over = threading.Event(), threading.Event()

    def read() -> None:
        headers = {**HEADERS, "Authorization": f"Bearer {token}"}
        with httpx2.stream(
            "GET", f"http://127.0.0.1:{server.port}/sse", headers=headers, timeout=60
        ) as stream:
            assert stream.status_code == 200
            for _ in stream.iter_lines():
                opened.set()
        over.set()

    threading.Thread(target=read, daemon=True).start()
    assert opened.wait(30 + SLACK)
    assert over.wait(lasts + SLACK), "the stream is still open"
    assert asked(server, "tools/list", token).status_code == 401


def test_calls_continue_while_the_provider_is_unavailable(
    server: LiveServer, provider: IdentityProvider
) -> None:
    tokens = [provider.token(aud=AUDIENCE, sub=f"away-{number}") for number in range(4)]
    for token in tokens[:2]:
        assert asked(server, "tools/list", token).status_code == 200
    provider.away = True
    try:
        for token in tokens:
            assert asked(server, "tools/list", token).status_code == 200
    finally:
        provider.away = False
