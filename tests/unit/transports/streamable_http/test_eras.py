"""The era of a message, and legacy features that the modern era lacks."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_app.protocol.messages.envelope import CLIENT_CAPABILITIES, VERSION
from mcp_app.protocol.versions import LEGACY
from mcp_app.streams.gateway import Streams
from tests.unit.transports.streamable_http import modern as asked
from tests.unit.transports.streamable_http.asgi import Exchange, Server, hello, request
from tests.unit.transports.streamable_http.modern import Desk, V, meta, modern


@pytest.fixture(autouse=True)
def _offered() -> None:
    asked.offer(Desk())


def _refusal(exchange: Exchange) -> tuple[int, int]:
    return exchange.status, exchange.json["error"]["code"]


@pytest.mark.requirement("ERA-01", "SES-13", "T-POLL-06")
async def test_session_headers_on_modern_request_are_ignored(server: Server) -> None:
    session = await server.initialize()
    for named in (session["mcp-session-id"], "no session of ours"):
        headers: dict[str, str | None] = {"mcp-session-id": named, "last-event-id": "s.1.1"}
        exchange = await modern(server, "tools/list", headers=headers).done()
        assert exchange.json["result"]["resultType"] == "complete"
        assert b"mcp-session-id" not in exchange.headers
    legacy = await server.send(message=request("tools/list"), headers=session).done()
    assert "resultType" not in legacy.json["result"]


@pytest.mark.requirement("ERA-02")
async def test_initialize_without_meta_opens_session_with_any_headers(
    server: Server,
) -> None:
    headers: dict[str, str | None] = {"mcp-protocol-version": "2025-11-25", "mcp-method": "initialize"}
    opened = await server.send(message=request("initialize", hello()), headers=headers).done()
    assert opened.json["result"]["protocolVersion"] == "2025-11-25"


@pytest.mark.requirement("ERA-03", "T-MOD-07", "RES-10", "LOG-04", "PING-03", "T-GET-08")
@pytest.mark.parametrize(
    "method",
    [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "notifications/initialized",
        "unknown/method",
    ],
)
async def test_removed_or_unknown_method_is_not_found(method: str, server: Server) -> None:
    exchange = await modern(server, method, hello(), request_id="me").done()
    assert (exchange.status, exchange.json["error"]["code"]) == (404, -32601)
    assert exchange.json["id"] == "me"
    assert b"mcp-session-id" not in exchange.headers


@pytest.mark.requirement("ERA-04", "HDR-01")
@pytest.mark.parametrize("header", [None, "2025-11-25", "2024-11-05", "2026-07-29"])
async def test_meta_without_matching_header_is_never_served_as_legacy(
    header: str | None, server: Server
) -> None:
    session = await server.initialize()
    headers = {**session, "mcp-protocol-version": header}
    exchange = await modern(server, "tools/list", headers=headers).done()
    assert _refusal(exchange) == (400, -32020)


@pytest.mark.requirement("ERA-05", "META-01")
@pytest.mark.parametrize(
    "told",
    [
        None,
        {},
        {CLIENT_CAPABILITIES: {}},
        {VERSION: V},
        {VERSION: 7, CLIENT_CAPABILITIES: {}},
        meta(**{CLIENT_CAPABILITIES: []}),
    ],
)
async def test_header_without_complete_meta_is_invalid_params(
    told: dict[str, Any] | None, server: Server
) -> None:
    message = request("server/discover", {} if told is None else {"_meta": told})
    headers: dict[str, str | None] = {"mcp-protocol-version": V, "mcp-method": "server/discover"}
    assert _refusal(await server.send(message=message, headers=headers).done()) == (400, -32602)


@pytest.mark.requirement("META-01")
async def test_non_string_version_is_modern_invalid_params(server: Server) -> None:
    told = {VERSION: 20260728, CLIENT_CAPABILITIES: {}}
    exchange = await server.send(message=request("tools/list", {"_meta": told})).done()
    assert _refusal(exchange) == (400, -32602)


@pytest.mark.requirement("META-01")
@pytest.mark.parametrize("declared", [{"roots": 7}, {"sampling": []}, {"elicitation": "yes"}])
async def test_non_object_capability_is_rejected(declared: dict[str, Any], server: Server) -> None:
    exchange = await modern(server, "tools/list", told=meta(**{CLIENT_CAPABILITIES: declared})).done()
    assert _refusal(exchange) == (400, -32602)


@pytest.mark.requirement("ERA-06", "VER-09")
async def test_request_without_modern_version_is_legacy_and_needs_session(server: Server) -> None:
    told = meta("2025-11-25")
    for headers in ({}, {"mcp-protocol-version": "2025-11-25"}):
        exchange = await server.send(message=request("tools/list", {"_meta": told}), headers=headers).done()
        assert exchange.status == 400
        assert "No session" in exchange.json["error"]["message"]
    session = await server.initialize()
    served = await server.send(message=request("tools/list", {"_meta": told}), headers=session).done()
    assert "resultType" not in served.json["result"]
    mixed = await modern(server, "tools/list", told=told).done()
    assert _refusal(mixed) == (400, -32020)


@pytest.mark.requirement("ERA-09", "T-MOD-10", "T-GET-08")
@pytest.mark.parametrize("verb", ["GET", "DELETE"])
async def test_get_and_delete_return_405(verb: str, server: Server) -> None:
    session = await server.initialize()
    for headers in ({"mcp-protocol-version": V}, {**session, "mcp-protocol-version": f" {V}"}):
        exchange = await server.send(verb, headers=headers).done()
        assert exchange.status == 405
        assert exchange.headers[b"allow"] == b"POST"
        assert exchange.json["error"]["code"] == -32600
    if verb == "DELETE":
        assert (await server.send(verb, headers=session).done()).status == 200


@pytest.mark.requirement("VER-07", "VER-08")
@pytest.mark.parametrize("version", ["v999.0.0", "2031-01-01", "2026-07-27"])
async def test_unserved_version_error_lists_supported_versions(version: str, server: Server) -> None:
    headers: dict[str, str | None] = {"mcp-protocol-version": version}
    exchange = await modern(server, "tools/list", told=meta(version), headers=headers).done()
    assert _refusal(exchange) == (400, -32022)
    data = exchange.json["error"]["data"]
    assert data["requested"] == version
    discovered = await asked.answered(server, "server/discover")
    assert data["supported"] == discovered["supportedVersions"] == [V, *LEGACY]


@pytest.mark.requirement("VER-01", "ERA-07", "VER-02")
async def test_disabled_legacy_era_reports_supported_versions(streams: Streams) -> None:
    server = Server(streams, versions=(V,))
    refused = await server.send(message=request("initialize", hello(), 5)).done()
    assert _refusal(refused) == (400, -32022)
    assert refused.json["error"]["data"] == {"supported": [V], "requested": "2025-11-25"}
    assert refused.json["id"] == 5
    for verb in ("GET", "DELETE"):
        nothing = await server.send(verb).done()
        assert (nothing.status, nothing.headers[b"allow"]) == (405, b"POST, OPTIONS")
    assert (await asked.answered(server, "server/discover"))["supportedVersions"] == [V]


@pytest.mark.requirement("VER-01")
async def test_disabled_modern_era_falls_back_to_initialize(streams: Streams) -> None:
    server = Server(streams, versions=LEGACY)
    exchange = await modern(server, "server/discover").done()
    assert exchange.status == 400
    # A code of that era would indicate that it is served here.
    assert exchange.json["error"]["code"] == -32600
    assert "initialize" in exchange.json["error"]["message"]


@pytest.mark.requirement("T-MOD-01", "ERA-08")
@pytest.mark.parametrize(
    "body",
    [[], [request("tools/list", {"_meta": meta()})], {"jsonrpc": "2.0", "id": 1, "result": {}}],
    ids=["empty", "batch", "response"],
)
async def test_body_must_be_one_request_or_notification(body: Any, server: Server) -> None:
    exchange = await server.send(message=body, headers={"mcp-protocol-version": V}).done()
    assert _refusal(exchange) == (400, -32600)


@pytest.mark.requirement("T-MOD-06", "CAN-05", "HDR-05")
@pytest.mark.parametrize("method", ["notifications/cancelled", "notifications/unknown"])
async def test_notification_is_accepted_without_effect(method: str, server: Server) -> None:
    told = {"jsonrpc": "2.0", "method": method, "params": {"requestId": 1}}
    exchange = await server.send(message=told, headers={"mcp-protocol-version": V}).done()
    assert (exchange.status, exchange.body) == (202, b"")


@pytest.mark.requirement("T-MOD-06", "VER-07")
@pytest.mark.parametrize(
    ("header", "code"), [("2031-01-01", -32022), (None, -32020), (f"{V}, {V}", -32022), ("ü", -32020)]
)
async def test_notification_of_unserved_version_is_rejected(
    header: str | None, code: int, server: Server
) -> None:
    told = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"_meta": meta()}}
    exchange = await server.send(message=told, headers={"mcp-protocol-version": header}).done()
    assert _refusal(exchange) == (400, code)
    assert "id" not in exchange.json
