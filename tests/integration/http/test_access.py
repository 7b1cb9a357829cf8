"""Authentication of the MCP endpoint:

valid credentials, refusals, and session ids that never replace a key.
"""

from __future__ import annotations

import json
import time
from typing import Any
from uuid import uuid4

import pytest

from mcp_app.conf import Settings
from tests.bounds import SLACK
from tests.clients.raw_http import Answer, EventStream, Mcp, RawClient
from tests.integration.http.conftest import OpenSession
from tests.integration.http.other_process import OtherProcess
from tests.servers.live import LiveServer, eventually

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    },
}
ACCEPT = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


def ask(strict: LiveServer, headers: dict[str, str], path: str = "/mcp") -> Answer:
    with RawClient("127.0.0.1", strict.ports[0]) as raw:
        return raw.request("POST", path, {**ACCEPT, **headers}, json.dumps(INITIALIZE).encode())


WRONG: tuple[tuple[str, str | None], ...] = (
    ("none", None),
    ("unknown", "Bearer mcp_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
    ("expired", "Bearer {expired}"),
    ("revoked", "Bearer {revoked}"),
    ("empty", ""),
    ("scheme alone", "Bearer"),
    ("empty token", "Bearer "),
    ("basic", "Basic dXNlcjpwYXNz"),
    ("unsigned token", "Bearer eyJhbGciOiJub25lIn0.e30."),
    ("no scheme", "{valid}"),
    ("two tokens", "Bearer {valid} {valid}"),
    ("other scheme", "Token {valid}"),
    ("prefix only", "Bearer {prefix}"),
    ("very long", "Bearer " + "x" * 8_000),
    ("not ascii", "Bearer \xe9\xff"),
)


@pytest.fixture(scope="module")
def secrets(keys: OtherProcess) -> dict[str, str]:
    revoked, valid = keys.issue_key("access"), keys.issue_key("access")
    keys.revoke_key(revoked)
    expired = keys.issue_key("access", seconds=-5)
    return {"revoked": revoked, "valid": valid, "expired": expired, "prefix": valid[:12]}


@pytest.mark.requirement("AUTH-03", "AUTH-05", "SEC-04")
@pytest.mark.parametrize(("kind", "authorization"), WRONG, ids=[kind for kind, _ in WRONG])
def test_invalid_credentials_are_challenged(
    strict: LiveServer, secrets: dict[str, str], kind: str, authorization: str | None
) -> None:
    sent = {} if authorization is None else {"Authorization": authorization.format(**secrets)}
    answer = ask(strict, sent)
    challenge = answer.headers["www-authenticate"]
    assert answer.status == 401
    assert challenge.startswith("Bearer")
    assert ('error="invalid_token"' in challenge) == (kind != "none")
    assert answer.json()["error"]["code"] == -32600
    assert "mcp-session-id" not in answer.headers


@pytest.mark.requirement("AUTH-03")
def test_wrong_keys_get_identical_responses(strict: LiveServer, secrets: dict[str, str]) -> None:
    kinds = {"unknown", "expired", "revoked", "basic", "empty token", "no scheme"}
    answers = [
        ask(strict, {"Authorization": (wrong or "").format(**secrets)})
        for kind, wrong in WRONG
        if kind in kinds
    ]
    assert len({(answer.body, answer.headers["www-authenticate"]) for answer in answers}) == 1


@pytest.mark.requirement("AUTH-03", "AUTH-05")
@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_valid_key_opens_the_endpoint(strict: LiveServer, key: str, scheme: str) -> None:
    assert ask(strict, {"Authorization": f"{scheme} {key}"}).status == 200


@pytest.mark.requirement("AUTH-05")
def test_two_authorization_headers_return_400(strict: LiveServer, key: str) -> None:
    assert ask(strict, {"Authorization": f"Bearer {key}", "authorization": "Bearer other"}).status == 400


@pytest.mark.requirement("AUTH-06", "SEC-09")
@pytest.mark.parametrize("name", ["access_token", "token", "api_key", "Authorization"])
def test_key_in_the_url_is_refused_and_not_logged(strict: LiveServer, key: str, name: str) -> None:
    assert ask(strict, {}, f"/mcp?{name}={key}").status == 401
    assert ask(strict, {"X-API-Key": key}).status == 401
    assert key not in strict.logs()


@pytest.mark.requirement("AUTH-06", "AUTH-03")
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
@pytest.mark.parametrize("process", [0, 1])
def test_every_session_request_requires_the_key(
    strict: LiveServer, open_strict: OpenSession, key: str, method: str, process: int
) -> None:
    client = open_strict(token=key)
    client.token = None
    headers = client.headers()
    body = json.dumps(client.request_message("ping")).encode() if method == "POST" else None
    with RawClient("127.0.0.1", strict.ports[process]) as raw:
        answer = raw.request(method, "/mcp", headers, body)
    assert answer.status == 401
    client.token = key
    assert client.call("ping")["result"] == {}


@pytest.mark.requirement("AUTH-21")
def test_session_cookie_does_not_authenticate(strict: LiveServer, keys: OtherProcess, key: str) -> None:
    cookie = keys.run(
        "from django.test import Client\n"
        "users = get_user_model().objects\n"
        "user, _ = users.get_or_create(username='boss', is_superuser=True, is_staff=True)\n"
        "browser = Client(); browser.force_login(user)\n"
        "result = '; '.join(f'{name}={morsel.value}' for name, morsel in browser.cookies.items())"
    )
    assert "sessionid=" in cookie
    assert ask(strict, {"Cookie": cookie}).status == 401
    # A cookie sent together with a key is ignored, and requires no CSRF token.
    assert ask(strict, {"Cookie": cookie, "Authorization": f"Bearer {key}"}).status == 200


@pytest.mark.requirement("AUTH-20")
def test_anonymous_access_requires_the_setting_and_loopback(live: LiveServer, strict: LiveServer) -> None:
    assert Settings().auth == "required"
    assert ask(strict, {}).status == 401
    assert ask(live, {}).status == 200
    # A wrong key is not treated as an anonymous request.
    assert ask(live, {"Authorization": "Bearer wrong"}).status == 401
    assert ask(live, {"X-Forwarded-For": "203.0.113.9"}).status == 401


@pytest.mark.requirement("AUTH-06")
@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_checks_need_no_key(strict: LiveServer, path: str) -> None:
    with RawClient("127.0.0.1", strict.ports[0]) as raw:
        assert raw.request("GET", path).status in (200, 503)


def refusal(client: Mcp, last_event_id: str | None = None) -> Answer | None:
    found = client.try_get_stream(last_event_id)
    if isinstance(found, EventStream):
        found.cut()
        return None
    return found


def read_to_the_end(stream: EventStream, seconds: float) -> float:
    """Return the seconds until the server ended the stream."""
    started = time.monotonic()
    deadline = started + seconds
    while stream.next(deadline - time.monotonic()) is not None:
        pass
    return time.monotonic() - started


BUSY = {"name": "chatter", "arguments": {"name": "busy", "seconds": 40}}
ASKING = {"name": "hold", "arguments": {"name": "revoked", "seconds": 40}}


@pytest.mark.requirement("AUTH-03", "SEC-06")
@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
@pytest.mark.parametrize("call", [None, ASKING, BUSY], ids=["standalone", "silent call", "busy call"])
def test_revoking_a_key_ends_its_streams_and_refuses_requests(
    strict: LiveServer,
    open_strict: OpenSession,
    keys: OtherProcess,
    version: str,
    call: dict[str, Any] | None,
) -> None:
    # A separate user, because all keys of one user share the limit of sessions.
    key = keys.issue_key(f"revoked-{uuid4()}")
    client = open_strict(version, token=key)
    stream = client.open_call("tools/call", call) if call else client.get_stream()
    with stream:
        if version == "2025-11-25" or call is BUSY:
            stream.next()
        # Keys are looked up twice a second here; the default is every 15 seconds.
        keys.revoke_key(key)
        if version == "2025-06-18":  # The newest revision's connections are rotated every two seconds here.
            assert read_to_the_end(stream, 3 + SLACK) < 2 + SLACK
    for port in strict.ports:
        elsewhere = client.via(port)
        eventually(lambda at=elsewhere: refusal(at) is not None, 1, "the key is refused")  # type: ignore[misc]
        answer = refusal(elsewhere, stream.last_event_id)
        assert answer is not None
        assert answer.status == 401
        assert elsewhere.post(elsewhere.request_message("ping")).status == 401
        elsewhere.close()


@pytest.mark.requirement("AUTH-18", "AUTH-03")
@pytest.mark.parametrize("call", [None, BUSY], ids=["standalone", "busy call"])
def test_stream_ends_when_its_key_expires(
    open_strict: OpenSession, keys: OtherProcess, call: dict[str, Any] | None
) -> None:
    expires = time.time() + 1.5
    key = keys.issue_key("expiring", seconds=1.5)
    client = open_strict("2025-06-18", token=key)
    with client.open_call("tools/call", call) if call else client.get_stream() as stream:
        read_to_the_end(stream, 5 + SLACK)
        assert -0.1 < time.time() - expires < 1 + SLACK
    answer = refusal(client, stream.last_event_id)
    assert answer is not None
    assert answer.status == 401


@pytest.mark.requirement("SES-09", "SEC-06")
def test_another_principal_cannot_inject_or_cancel(
    strict: LiveServer, open_strict: OpenSession, keys: OtherProcess, key: str
) -> None:
    owner = open_strict("2025-06-18", token=key)
    stranger = owner.via(strict.ports[1])
    stranger.token = keys.issue_key("mallory")
    call = {"name": "hold", "arguments": {"name": "not mallory's", "seconds": 1.0}}
    with owner.get_stream() as standalone, owner.open_call("tools/call", call) as stream:
        injected = (
            stranger.notify("notifications/cancelled", {"requestId": owner.next_id}),
            stranger.notify("notifications/resources/updated", {"uri": "x"}),
            stranger.respond("elicitation-x", {}),
            stranger.post(stranger.request_message("resources/subscribe", {"uri": "test://static-text"})),
            stranger.delete(),
        )
        assert {answer.status for answer in injected} == {404}
        assert stream.messages()[-1]["result"]["content"][0]["text"] == "not mallory's"
        assert standalone.quiet(0.2)
    stranger.close()


BENCH = """
from django.contrib.auth import get_user_model
from mcp_app.auth.bench import issue_bench_token
users = get_user_model().objects
root, ada = (users.create_user(name, is_superuser=is_root, is_staff=is_root)
             for name, is_root in (("bench-root", True), ("bench-ada", False)))
print(issue_bench_token(actor=root)[0], issue_bench_token(actor=root, user=ada)[0])
"""


def test_bench_token_opens_only_the_endpoint(strict: LiveServer) -> None:
    own, as_ada = strict.shell(BENCH).strip().splitlines()[-1].split()
    mine, hers = strict.mcp(process=0, token=own), strict.mcp(process=1, token=as_ada)
    mine.initialize()
    hers.initialize()
    assert mine.call("ping")["result"] == {}
    # The same user behind both tokens, but different principals.
    hers.session = mine.session
    assert hers.post({"jsonrpc": "2.0", "id": 9, "method": "ping"}).status == 404
    mine.close()
    hers.close()
    bearer = {"Authorization": f"Bearer {own}"}
    with RawClient("127.0.0.1", strict.ports[0]) as raw:
        sse = raw.request("GET", "/sse", {**bearer, "Accept": "text/event-stream"})
        assert (sse.status, b"test bench" in sse.body) == (403, True)
    for method, path, status in (
        ("POST", "/messages/?session_id=x", 403),
        ("GET", "/metrics", 403),
        ("GET", "/admin/", 302),
    ):
        with RawClient("127.0.0.1", strict.ports[0]) as raw:
            assert raw.request(method, path, bearer).status == status, path
