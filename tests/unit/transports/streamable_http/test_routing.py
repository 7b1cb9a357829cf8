"""2026-07-28: headers that repeat the body, through the endpoint."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.catalogue.snapshots.snapshot import KINDS, Catalogue
from mcp_app.streams.gateway import Streams
from tests.unit.catalogue.entries import tool_entry
from tests.unit.transports.streamable_http import modern as asked
from tests.unit.transports.streamable_http.asgi import Exchange, Server, request
from tests.unit.transports.streamable_http.modern import Desk, V, modern


@pytest.fixture(autouse=True)
def _offered() -> None:
    asked.offer(Desk())


def _refusal(exchange: Exchange) -> tuple[int, int]:
    return exchange.status, exchange.json["error"]["code"]


@pytest.mark.requirement("HDR-02", "HDR-03", "HDR-06", "HDR-07", "HDR-08")
@pytest.mark.parametrize(
    ("headers", "more", "status"),
    [
        ({}, [], 200),
        ({"mcp-method": None}, [(b"MCP-METHOD", b"tools/call")], 200),
        ({"mcp-name": "  at_once\t "}, [], 200),
        ({"mcp-name": "=?base64?YXRfb25jZQ==?="}, [], 200),
        ({"mcp-method": "TOOLS/CALL"}, [], 400),
        ({"mcp-method": None}, [], 400),
        ({"mcp-name": None}, [], 400),
        ({"mcp-name": "in_thread"}, [], 400),
        ({}, [(b"Mcp-Name", b"at_once")], 400),
        ({"mcp-name": "at_once, at_once"}, [], 400),
        ({}, [(b"mcp-protocol-version", V.encode())], 400),
    ],
)
async def test_routing_headers_must_repeat_body(
    headers: dict[str, str | None], more: list[tuple[bytes, bytes]], status: int, server: Server
) -> None:
    exchange = await modern(server, "tools/call", {"name": "at_once"}, headers=headers, more=more).done()
    assert exchange.status == status, exchange.body
    if status == 400:
        assert exchange.json["error"]["code"] == -32020


@pytest.mark.requirement("HDR-11")
async def test_headers_contradicting_body_are_rejected(server: Server) -> None:
    """Headers that agree with each other but not with the body call nothing."""
    headers: dict[str, str | None] = {"mcp-method": "tools/list", "mcp-name": "slow"}
    exchange = await modern(server, "tools/call", {"name": "at_once"}, headers=headers).done()
    assert exchange.status == 400


@pytest.mark.requirement("XMH-07", "XMH-08", "XMH-10")
@pytest.mark.parametrize(
    ("arguments", "headers", "code"),
    [
        ({"region": "eu"}, {"mcp-param-region": "eu"}, 0),
        ({"region": "eu"}, {"mcp-param-region": "eu", "mcp-param-note": "other"}, 0),
        ({}, {}, 0),
        ({"region": "eu"}, {}, -32020),
        ({}, {"mcp-param-region": "eu"}, -32020),
        ({"region": "eu"}, {"mcp-param-region": "us"}, -32020),
        ({"region": "eu"}, {"mcp-param-region": "=?base64?ZXU?="}, -32020),
    ],
)
async def test_mirrored_arguments_are_compared(
    arguments: dict[str, Any], headers: dict[str, str | None], code: int, server: Server
) -> None:
    params = {"name": "regional", "arguments": arguments}
    exchange = await modern(server, "tools/call", params, headers=headers).done()
    assert exchange.json.get("error", {}).get("code", 0) == code
    assert exchange.status == (400 if code else 200)
    listed = await asked.answered(server, "tools/list", {"cursor": await _last_page(server)})
    (tool,) = [tool for tool in listed["tools"] if tool["name"] == "regional"]
    assert tool["inputSchema"]["properties"]["region"]["x-mcp-header"] == "Region"


async def _last_page(server: Server) -> str:
    cursor, page = "", await asked.answered(server, "tools/list")
    while "nextCursor" in page:
        cursor = page["nextCursor"]
        page = await asked.answered(server, "tools/list", {"cursor": cursor})
    return cursor


@pytest.mark.requirement("XMH-07")
async def test_older_revision_ignores_param_headers(server: Server) -> None:
    session = await server.initialize()
    call = request("tools/call", {"name": "regional", "arguments": {"region": "eu"}})
    wrong: dict[str, str | None] = {**session, "mcp-param-region": "us"}
    for headers in (session, wrong):
        exchange = await server.send(message=call, headers=headers).done()
        assert exchange.json["result"]["content"][0]["text"] == "eu "


@pytest.mark.requirement("SEC-05")
async def test_allowed_origin_may_send_param_headers(streams: Streams) -> None:
    server = Server(streams, allowed_origins=("https://app.example",))
    names = "Mcp-Param-Region, mcp-param-a b, x-other, mcp-param-" + "x" * 200 + ", mcp-param-zone"
    headers: dict[str, str | None] = {
        "origin": "https://app.example",
        "access-control-request-headers": names,
    }
    preflight = await server.send("OPTIONS", headers=headers).done()
    allowed = preflight.headers[b"access-control-allow-headers"].split(b", ")
    assert allowed[-2:] == [b"mcp-param-region", b"mcp-param-zone"]
    assert b"mcp-name" in allowed
    assert b"x-other" not in allowed
    answer = modern(server, "tools/list", headers={"origin": "https://app.example"})
    assert (await answer.done()).headers[b"access-control-allow-origin"] == b"https://app.example"


@pytest.mark.requirement("DISC-04")
async def test_discovery_requires_credential(server: Server) -> None:
    exchange = await modern(server, "server/discover", address="10.0.0.9").done()
    assert exchange.status == 401
    assert exchange.headers[b"www-authenticate"].startswith(b"Bearer")


@pytest.mark.requirement("SEC-11", "HDR-11")
@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, -32602),
        ({"mcp-name": "at_once"}, -32020),
        ({"mcp-param-user": "admin", "x-remote-user": "admin", "mcp-session-id": "s"}, -32602),
    ],
)
async def test_only_credential_header_authorizes(
    headers: dict[str, str | None], code: int, server: Server
) -> None:
    def hidden() -> str:
        """Hidden."""
        return "secret"

    entries = [tool_entry(asked.at_once), tool_entry(hidden, 2, permission="library.read")]
    current_snapshot.replace(Catalogue(revision=6, revisions=dict.fromkeys(KINDS, 6), tools=entries))
    exchange = await modern(server, "tools/call", {"name": "hidden"}, headers=headers).done()
    assert (exchange.status, exchange.json["error"]["code"]) == (400, code)
    assert b"secret" not in exchange.body
