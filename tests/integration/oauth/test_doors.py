"""Every endpoint of the server with a token, without one, and with a missing scope."""

from __future__ import annotations

import re
import secrets
import threading
import time
from typing import Any

import httpx2
import pytest

from tests.bounds import SLACK
from tests.servers.live import LiveServer
from tests.unit.oauth.flow import METADATA_ADDRESSES

pytestmark = [pytest.mark.process]
HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
WELL_KNOWN = "/.well-known/oauth-protected-resource"
# Issues tokens as a refresh does, so that the test needs no browser.
MINT = """
import time
from django.contrib.auth import get_user_model
from mcp_app.oauth import connections, secrets
from mcp_app.oauth.models import AuthorizationCode, Client
from mcp_app.auth.own_addresses import resource
client, _ = Client.objects.get_or_create(client_id="doors", defaults={{"redirect_uris": "https://a.example/"}})
user = get_user_model().objects.get(username="ada")
user.is_superuser = True
user.save()
code = secrets.new(secrets.CODE)
consent = connections.Consent(client, user, {resource}, {scope!r}, {redirect!r}, "x" * 43)
connections.allow(consent, code)
pair = secrets.Pair({token!r}, secrets.new(secrets.REFRESH), {scope!r}, time.time() + 3600)
connections.exchange(AuthorizationCode.objects.get(digest=secrets.digest(code)), pair)
"""
KEY = """
from django.contrib.auth import get_user_model
from mcp_app.auth.api_keys import issue_api_key
user, _ = get_user_model().objects.get_or_create(username="holds-keys", is_superuser=True)
print(issue_api_key(user=user, name="doors", scopes={scopes})[1])
"""


def minted(server: LiveServer, scope: str, resource: str = "resource()", redirect: str = "") -> str:
    """Return an access token with those scopes, of a new connection; one with the same ``redirect``
    replaces it.
    """
    token = "mcpat_" + secrets.token_urlsafe(32)
    redirect = redirect or f"https://a.example/{secrets.token_hex(4)}"
    server.shell(MINT.format(scope=scope, resource=resource, redirect=redirect, token=token))
    return token


def issued(server: LiveServer, scope: str) -> str:
    """Return an API key with those scopes."""
    return server.shell(KEY.format(scopes=scope.split())).split()[-1]


def asked(server: LiveServer, method: str, token: str, path: str = "/mcp", **params: Any) -> httpx2.Response:
    """Return the response to a request of 2026-07-28, or to a GET of another path."""
    headers = {**HEADERS, "Authorization": f"Bearer {token}"}
    base = server.url.removesuffix("/mcp")
    if path != "/mcp":
        return httpx2.get(base + path, headers=headers, timeout=120)
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    headers |= {"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method}
    if "name" in params:
        headers["Mcp-Name"] = params["name"]
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": {**params, "_meta": meta}}
    return httpx2.post(base + path, headers=headers, json=body, timeout=120)


def told(answer: httpx2.Response) -> dict[str, str]:
    """Return the parts of the challenge."""
    challenge = answer.headers["www-authenticate"]
    assert challenge.startswith("Bearer ")
    return dict(re.findall(r'([a-z_]+)="([^"]*)"', challenge))


@pytest.mark.requirement("AUTH-01", "AUTH-02", "AUTH-13", "AUTH-24")
@pytest.mark.parametrize(
    ("spelled", "path"),
    [
        (WELL_KNOWN, "/mcp"),
        (f"{WELL_KNOWN}/mcp", "/mcp"),
        (f"{WELL_KNOWN}/sse", "/sse"),
        (f"/mcp{WELL_KNOWN}", "/mcp"),
        (f"/sse{WELL_KNOWN}", "/sse"),
    ],
)
def test_resource_metadata_uses_the_requested_host(server: LiveServer, spelled: str, path: str) -> None:
    for name in ("127.0.0.1", "localhost"):
        base = f"http://{name}:{server.port}"
        answer = httpx2.get(
            f"http://127.0.0.1:{server.port}{spelled}", headers={"Host": base[7:]}, timeout=60
        )
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, "*")
        document = answer.json()
        assert document["resource"] == base + path
        assert document["authorization_servers"] == [base]
        assert document["scopes_supported"] == ["mcp", "mcp:tools", "mcp:resources", "mcp:prompts"]


@pytest.mark.requirement("AUTH-13", "AUTH-14")
@pytest.mark.parametrize("spelled", METADATA_ADDRESSES)
def test_running_server_has_authorization_server_metadata_at(server: LiveServer, spelled: str) -> None:
    base = f"http://127.0.0.1:{server.port}"
    assert httpx2.get(f"{base}{spelled}", timeout=60).json()["issuer"] == base
    assert httpx2.get(f"{base}/authorize", timeout=60).status_code == 404


@pytest.mark.requirement("AUTH-03", "AUTH-04", "AUTH-25")
@pytest.mark.parametrize("path", ["/mcp", "/sse", "/messages/", "/metrics"])
@pytest.mark.parametrize("authorization", ["", "Bearer mcpat_unknown"])
def test_every_endpoint_names_its_resource_metadata(
    server: LiveServer, path: str, authorization: str
) -> None:
    headers = {**HEADERS, **({"Authorization": authorization} if authorization else {})}
    method = "POST" if path in ("/mcp", "/messages/") else "GET"
    answer = httpx2.request(method, f"http://127.0.0.1:{server.port}{path}", headers=headers, timeout=120)
    assert answer.status_code == 401
    parts = told(answer)
    form = "/sse" if path == "/sse" else "/mcp"
    assert parts["resource_metadata"] == f"http://127.0.0.1:{server.port}{WELL_KNOWN}{form}"
    assert parts["scope"] == "mcp mcp:tools mcp:resources mcp:prompts"
    assert parts.get("error") == ("invalid_token" if authorization else None)
    assert "no-store" in answer.headers["cache-control"]


@pytest.mark.requirement("AUTH-10", "AUTH-12")
@pytest.mark.parametrize(
    ("method", "params", "scope"),
    [
        ("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}, "mcp:tools"),
        ("resources/read", {"uri": "server://info", "name": "server://info"}, "mcp:resources"),
        ("prompts/get", {"name": "code_review", "arguments": {"code": "x"}}, "mcp:prompts"),
    ],
)
@pytest.mark.parametrize("made", [minted, issued])
def test_missing_scope_is_named_and_sufficient_scope_is_served(
    server: LiveServer, made: Any, method: str, params: dict[str, Any], scope: str
) -> None:
    plain, enough = made(server, "mcp"), made(server, scope)
    assert asked(server, "tools/list", plain).status_code == 200
    refused = asked(server, method, plain, **params)
    assert refused.status_code == 403
    assert refused.json()["id"] == 7
    parts = told(refused)
    assert (parts["error"], parts["scope"]) == ("insufficient_scope", f"mcp {scope}")
    served = asked(server, method, enough, **params)
    assert served.status_code == 200, served.text


@pytest.mark.requirement("AUTH-10", "AUTH-17")
@pytest.mark.parametrize("made", [minted, issued])
def test_metrics_and_api_require_the_admin_scope(server: LiveServer, made: Any) -> None:
    plain, admin = made(server, "mcp mcp:tools"), made(server, "mcp:admin")
    for path in ("/metrics", "/api/tools/"):
        refused = asked(server, "", plain, path)
        assert refused.status_code == 403
        assert told(refused)["scope"] == "mcp mcp:tools mcp:admin"
        assert asked(server, "", admin, path).status_code == 200


@pytest.mark.requirement("AUTH-17")
def test_http_sse_accepts_the_token_on_both_addresses(server: LiveServer) -> None:
    token = minted(server, "mcp")
    headers = {**HEADERS, "Authorization": f"Bearer {token}"}
    base = f"http://127.0.0.1:{server.ports[0]}"
    with httpx2.stream("GET", f"{base}/sse", headers=headers, timeout=120) as stream:
        assert stream.status_code == 200
        lines = stream.iter_lines()
        place = next(line for line in lines if line.startswith("data:"))[5:].strip()
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "add", "arguments": {}}}
        assert httpx2.post(base + place, headers=headers, json=call, timeout=120).status_code == 403
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        assert httpx2.post(base + place, headers=headers, json=ping, timeout=120).status_code == 202


@pytest.mark.requirement("AUTH-07")
def test_token_for_another_server_is_refused(server: LiveServer) -> None:
    token = minted(server, "mcp mcp:tools", resource="'https://other.example/mcp'")
    answer = asked(server, "tools/list", token)
    assert (answer.status_code, told(answer)["error"]) == (401, "invalid_token")


@pytest.mark.requirement("AUTH-26")
def test_long_credential_is_refused_like_any_other(server: LiveServer) -> None:
    for size in (4_096, 8_192, 12_000):
        answer = asked(server, "tools/list", "x" * size)
        assert (answer.status_code, told(answer)["error"]) == (401, "invalid_token")


@pytest.mark.requirement("AUTH-06")
def test_token_in_the_url_is_refused_and_not_logged(server: LiveServer) -> None:
    token = minted(server, "mcp mcp:tools")
    url = f"http://127.0.0.1:{server.port}/mcp?access_token={token}"
    answer = httpx2.post(url, headers=HEADERS, json={"jsonrpc": "2.0", "id": 1, "method": "ping"}, timeout=60)
    assert answer.status_code == 401
    assert token not in server.logs()


@pytest.mark.requirement("AUTH-18")
def test_open_stream_ends_with_its_connection(server: LiveServer) -> None:
    token = minted(server, "mcp")
    headers = {**HEADERS, "Authorization": f"Bearer {token}"}
    opened, over = threading.Event(), threading.Event()

    def read() -> None:
        place = f"http://127.0.0.1:{server.ports[1]}/sse"
        with httpx2.stream("GET", place, headers=headers, timeout=60) as stream:
            for _ in stream.iter_lines():
                opened.set()
        over.set()

    reading = threading.Thread(target=read, daemon=True)
    reading.start()
    assert opened.wait(30 + SLACK)
    server.shell(
        "from mcp_app.oauth import secrets\n"
        "from mcp_app.oauth.connections import end\n"
        "from mcp_app.oauth.models import Connection\n"
        f"end(Connection.objects.get(access_tokens__digest=secrets.digest({token!r})), 'test')"
    )
    began = time.monotonic()
    assert over.wait(12 + SLACK), "the stream is still open"
    assert time.monotonic() - began < 12 + SLACK


@pytest.mark.parametrize(
    ("path", "status"), [("/oauth/token", 400), ("/oauth/authorize", 403), ("/accounts/login/", 403)]
)
def test_form_in_another_charset_returns_a_client_error(server: LiveServer, path: str, status: int) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-16"}
    answer = httpx2.post(server.url.removesuffix("/mcp") + path, content="a=b", headers=headers, timeout=120)
    assert answer.status_code == status
    if path == "/oauth/token":
        assert answer.json()["error"] == "unsupported_grant_type"
