"""The checks every request passes: each returns its status, and the earlier of two wins."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from mcp_app.protocol.versions import LEGACY
from mcp_app.streams.base import SessionEnded, StreamsUnavailable
from mcp_app.streams.gateway import Streams
from tests.unit.transports.streamable_http.asgi import Server, hello, request

Changes = dict[str, Any]


def headers(**changed: str | None) -> Changes:
    return {"headers": {name.replace("_", "-"): value for name, value in changed.items()}}


PING = request("ping")
# Violations of each POST check, in the order of the checks, with the status of the error.
POST_RULES: list[tuple[str, Changes, int]] = [
    ("header sanity", {"more": [(b"host", b"127.0.0.1")]}, 400),
    ("host", headers(host="evil.example"), 421),
    ("origin", headers(origin="https://evil.example"), 403),
    ("verb", {"method": "PUT"}, 405),
    ("credential", {"address": "10.0.0.9"}, 401),
    ("content type", headers(content_type="text/plain"), 415),
    ("accept", headers(accept="text/html"), 406),
    ("declared length", headers(content_length="99999999"), 413),
    ("JSON", {"body": b"{"}, 400),
    ("version", headers(mcp_protocol_version="2031-01-01"), 400),
    ("session named", headers(mcp_session_id=None), 400),
    ("session known", headers(mcp_session_id="short"), 404),
]
GET_RULES: list[tuple[str, Changes, int]] = [
    *[rule for rule in POST_RULES if rule[0] in ("header sanity", "host", "origin", "verb", "credential")],
    ("accept", headers(accept="application/json"), 406),
    ("version", headers(mcp_protocol_version="2031-01-01"), 400),
    ("session named", headers(mcp_session_id=None), 400),
    ("session known", headers(mcp_session_id="short"), 404),
    ("event id", headers(last_event_id="nonsense"), 400),
]
DELETE_RULES = [rule for rule in GET_RULES if rule[0] not in ("accept", "event id")]
TABLES = {"POST": POST_RULES, "GET": GET_RULES, "DELETE": DELETE_RULES}
WORDS = {
    "header sanity": "sent more than once",
    "JSON": "not valid JSON",
    # A POST of an unknown revision belongs to the newer era and fails its first check (VER-04).
    "version": "rotocol",
    "session named": "No session",
    "event id": "Last-Event-ID",
}


def merged(first: Changes, second: Changes) -> Changes:
    both = {**first, **second}
    both["headers"] = {**first.get("headers", {}), **second.get("headers", {})}
    return both


@pytest.mark.parametrize(
    ("verb", "name", "broken", "status"),
    [(verb, *rule) for verb, rules in TABLES.items() for rule in rules],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_each_violation_returns_its_status_and_message(
    verb: str, name: str, broken: Changes, status: int, server: Server
) -> None:
    session = await server.initialize()
    valid = {"method": verb, "message": PING, "headers": session}
    refused = await server.send(**merged(valid, broken)).done()
    assert refused.status == status
    assert WORDS.get(name, "") in refused.json["error"]["message"]


@pytest.mark.parametrize(
    ("verb", "first", "second"),
    [
        (verb, *pair)
        for verb, rules in TABLES.items()
        for pair in pairwise(rules)
        if pair[0][0] != "session named"  # An unnamed session cannot be unknown as well.
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
async def test_earlier_of_two_violations_is_reported(
    verb: str, first: tuple[str, Changes, int], second: tuple[str, Changes, int], server: Server
) -> None:
    session = await server.initialize()
    broken = merged(second[1], first[1])
    valid = {"method": verb, "message": PING, "headers": session}
    refused = await server.send(**merged(valid, broken)).done()
    assert refused.status == first[2]
    assert WORDS.get(first[0], "") in refused.json["error"]["message"]


async def test_body_of_rejected_request_is_not_read(server: Server) -> None:
    for broken in (rule[1] for rule in POST_RULES[:8]):
        refused = server.send(**merged({"message": PING}, broken))
        await refused.done()
        assert refused._body is not None


@pytest.mark.requirement("SEC-05")
async def test_cors_preflight_succeeds_for_allowed_origin_only(streams: Streams) -> None:
    server = Server(streams, allowed_origins=("https://app.example",))
    allowed = await server.send("OPTIONS", headers={"origin": "https://app.example"}).done()
    assert allowed.status == 204
    assert allowed.headers[b"access-control-allow-origin"] == b"https://app.example"
    assert b"mcp-session-id" in allowed.headers[b"access-control-allow-headers"]
    refused = await server.send("OPTIONS", headers={"origin": "https://evil.example"}).done()
    assert refused.status == 403
    assert not any(name.startswith(b"access-control") for name in refused.headers)
    plain = await server.send("OPTIONS").done()
    assert (plain.status, plain.headers[b"allow"]) == (204, b"GET, POST, DELETE, OPTIONS")
    assert not any(name.startswith(b"access-control") for name in plain.headers)


async def test_allowed_origin_may_read_errors_and_answers(streams: Streams) -> None:
    server = Server(streams, allowed_origins=("https://app.example",))
    origin = {"origin": "https://app.example"}
    for sent in (server.send(message=PING, headers=origin), server.send("PUT", headers=origin)):
        assert (await sent.done()).headers[b"access-control-allow-origin"] == b"https://app.example"


@pytest.mark.parametrize(
    ("changes", "is_local"),
    [
        ({}, True),
        ({"address": "::1"}, True),
        ({"address": "::ffff:127.0.0.1"}, True),
        ({"headers": {"host": "localhost"}}, True),
        ({"headers": {"host": "[::1]:9"}}, True),
        ({"address": "192.168.0.2"}, False),
        ({"address": ""}, False),
        ({"headers": {"x-forwarded-proto": "https"}}, False),
        ({"headers": {"via": "1.1 proxy"}}, False),
        ({"headers": {"host": "service.example"}}, False),
    ],
)
async def test_only_loopback_request_is_local(changes: Changes, is_local: bool, streams: Streams) -> None:
    server = Server(streams, allowed_hosts=("service.example",))
    answer = await server.send(message=request("initialize", hello()), **changes).done()
    assert answer.status == (200 if is_local else 401)


FAULTS: list[tuple[Callable[[], Exception], int, str]] = [
    (lambda: StreamsUnavailable("10.0.0.1:6379 refused"), 503, "cannot reach its Redis"),
    (lambda: SessionEnded("ended"), 404, "Session not found"),
    (lambda: KeyError("/etc/secret"), 500, "Internal error (incident "),
]


@pytest.mark.parametrize(("fault", "status", "words"), FAULTS, ids=["redis outage", "ended", "bug"])
@pytest.mark.parametrize("verb", ["GET", "DELETE", "POST"])
async def test_fault_becomes_one_documented_response_without_internals(
    verb: str, fault: Callable[[], Exception], status: int, words: str, server: Server
) -> None:
    session = await server.initialize()

    async def failing(*args: Any) -> Any:
        raise fault()

    streams = server.process.streams
    streams.log.open = failing  # type: ignore[method-assign]
    streams.sessions.end = failing  # type: ignore[method-assign]
    streams.hub.publish = failing  # type: ignore[method-assign]
    told = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}}
    answer = await server.send(verb, told, headers=session).done()
    assert answer.status == status
    assert words in answer.json["error"]["message"]
    assert "secret" not in answer.body.decode()
    assert "6379" not in answer.body.decode()


async def test_client_disconnecting_before_its_body_gets_no_response(server: Server) -> None:
    leaving = server.send(message=PING)
    leaving._body = None
    leaving.gone.set()
    await leaving.done()
    assert leaving.sent == []


@pytest.mark.requirement("SEC-07")
async def test_streams_are_bounded_per_principal(streams: Streams) -> None:
    server = Server(streams, max_streams_per_principal=1)
    first, second = await server.initialize(), await server.initialize()
    stream = server.listen(first)
    await stream.until(b"id:")
    refused = await server.listen(second).done()
    assert (refused.status, refused.headers[b"retry-after"]) == (429, b"5")
    stream.gone.set()
    await stream.done()
    again = server.listen(second)
    await again.until(b"id:")
    again.gone.set()
    await again.done()


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
async def test_many_wrong_keys_return_429_and_anonymous_requests_still_work(streams: Streams) -> None:
    server = Server(streams, wrong_keys_per_minute=2)
    headers = await server.initialize()

    async def knock(**more: str | None) -> tuple[int, bool]:
        answer = await server.send(message=PING, headers={**headers, **more}).done()
        return answer.status, b"retry-after" in answer.headers

    wrong = [await knock(authorization=f"Bearer mcp_{number}") for number in range(4)]
    assert wrong == [(401, False), (401, False), (429, True), (429, True)]
    assert await knock() == (200, False)


@pytest.mark.parametrize("headed", [True, False])
@pytest.mark.parametrize("method", ["server/discover", "tools/list"])
async def test_probe_falls_back_to_initialize_if_modern_era_is_disabled(
    streams: Streams, method: str, headed: bool
) -> None:
    server = Server(streams, versions=LEGACY)
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    headers: dict[str, str | None] = {"mcp-protocol-version": "2026-07-28", "mcp-method": method}
    probe = request(method, {"_meta": meta})
    answer = await server.send(message=probe, headers=headers if headed else {}).done()
    assert answer.status == 400
    assert answer.json["id"] == probe["id"]
    assert answer.json["error"]["code"] not in (-32020, -32021, -32022)
    assert "initialize" in answer.json["error"]["message"]
