"""Dialects of early peers have no effect in the modern era: each dialect, and its response there."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest

from mcp_app import Context
from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.catalogue.snapshots.snapshot import KINDS, Catalogue
from mcp_app.protocol.messages.envelope import CLIENT_CAPABILITIES
from mcp_app.streams.gateway import Streams
from tests.requirements import manifest
from tests.unit.catalogue.entries import tool_entry
from tests.unit.transports.streamable_http import modern as asked
from tests.unit.transports.streamable_http.asgi import Exchange, Server
from tests.unit.transports.streamable_http.modern import Desk, V, answered, meta, modern

CALL = {"name": "at_once", "arguments": {"text": "a"}}


@dataclass(frozen=True)
class Said:
    """A request and its expected status and error code; 0 means no error."""

    method: str
    status: int
    code: int = 0
    params: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str | None] = field(default_factory=dict)
    told: dict[str, Any] | None = None

    async def to(self, server: Server) -> Exchange:
        return await modern(server, self.method, self.params, headers=self.headers, told=self.told).done()


@dataclass(frozen=True)
class Sent:
    """A body that is not a request of the era, and its expected response."""

    body: bytes
    status: int
    code: int = 0
    verb: str = "POST"

    async def to(self, server: Server) -> Exchange:
        return await server.send(self.verb, body=self.body, headers={"mcp-protocol-version": V}).done()


def told(method: str, **params: Any) -> Sent:
    """Return a notification: accepted and without effect."""
    return Sent(orjson.dumps({"jsonrpc": "2.0", "method": method, "params": params}), 202)


CAPABILITIES = meta(**{CLIENT_CAPABILITIES: {"tools": {}, "resources": True, "prompts": []}})
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
# By the row of the table of dialects.
ROWS: dict[str, list[Said | Sent]] = {
    "DLG-000-01": [told("initialized"), Said("initialized", 404, -32601)],
    "DLG-000-02": [told("exit"), Said("exit", 404, -32601)],
    "DLG-000-03": [Said("initialize", 404, -32601, {"capabilities": {}, "clientInfo": {}})],
    "DLG-000-04": [Said("tools/list", 200, told=CAPABILITIES)],
    "DLG-000-06": [Sent(b"Content-Length: %d\r\n\r\n%b" % (len(PING), PING), 400, -32700)],
    "DLG-000-07": [Said("tools/list", 200, headers={"mcp-session-id": "the-client-s-own"})],
    "DLG-000-08": [told("notifications/logging/message", level="info", message="x")],
    "DLG-000-09": [told("notifications/progress", token="t", value=0.5)],
    "DLG-000-10": [
        Said("tools/call", 400, -32602, {"name": "nobody"}),
        Said("prompts/get", 400, -32602, {"name": "nobody"}),
    ],
    "DLG-000-11": [Sent(b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}', 400, -32602)],
    "DLG-000-12": [Said("customFeature/operation", 404, -32601)],
    "DLG-001-01": [told("resources/list", cursor="x")],
    "DLG-001-02": [
        Said(
            "completion/complete",
            200,
            0,
            {"ref": {"type": "ref/prompt", "name": "review"}, "argument": {"name": "topic", "value": "t"}},
        )
    ],
    "DLG-002-01": [Said("tools/call", 400, -32020, CALL, {"mcp-method": "tools/list"})],
    "DLG-002-02": [Said("tools/call", 400, -32020, CALL, {"mcp-name": "other"})],
    "DLG-002-03": [Said("tools/call", 400, -32020, CALL, {"mcp-method": None}), told("notifications/x")],
    "DLG-002-04": [Said("tools/list", 400, -32020, headers={"mcp-method": "TOOLS/LIST"})],
    "DLG-002-05": [Sent(b"", 405, verb="GET")],
    "DLG-002-06": [Sent(b"", 405, verb="DELETE")],
    "DLG-002-07": [
        Said(
            "tools/call",
            400,
            -32020,
            {"name": "regional", "arguments": {"region": "eu"}},
            {"mcp-param-region": "us"},
        )
    ],
    "DLG-002-08": [
        Said("tools/call", 200, 0, CALL, {"mcp-name": "=?base64?YXRfb25jZQ==?="}),
        Said("tools/call", 400, -32020, CALL, {"mcp-name": "=?base64?!?="}),
    ],
    "DLG-002-09": [Said("tools/list", 200, headers={"MCP-SESSION-ID": "x"})],
    "DLG-003-01": [Sent(b"[%b]" % PING, 400, -32600)],
    "DLG-003-02": [Sent(b"[]", 400, -32600)],
    "DLG-004-01": [told("$/cancelRequest", id=1), Said("$/cancelRequest", 404, -32601, {"id": 1})],
    "DLG-004-03": [Said("resources/read", 400, -32602, {"uri": "no://thing"})],
    "DLG-004-04": [Said("tools/list", 200)],
    "DLG-004-05": [
        Said("tools/list", 400, -32022, headers={"mcp-protocol-version": "1.0"}, told=meta("1.0"))
    ],
    "DLG-004-06": [Said("ping", 404, -32601), Said("sampling/createMessage", 404, -32601)],
    "DLG-004-08": [Said("tools/call", 200, 0, CALL)],
    "DLG-004-10": [Said("tools/list", 406, headers={"accept": "text/html"})],
    "DLG-004-11": [Sent(b"{", 400, -32700)],
}
# Rows with more to check than a status; each has a test below.
SHOWN = {"DLG-000-05", "DLG-004-02", "DLG-004-07", "DLG-004-09"}


@pytest.fixture(autouse=True)
def _offered() -> None:
    asked.offer(Desk())


@pytest.mark.requirement("DLG-T01")
def test_every_dialect_requirement_has_test() -> None:
    rows = {name for name in manifest.load() if name.startswith("DLG-") and name != "DLG-T01"}
    assert rows == ROWS.keys() | SHOWN
    assert rows <= manifest.marks().keys()


@pytest.mark.requirement("DLG-T01")
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("changes", [{}, {"dialects": (), "routing_headers": "off"}], ids=["on", "off"])
async def test_dialect_changes_nothing_in_modern_era(
    name: str, changes: dict[str, Any], streams: Streams
) -> None:
    """Accepted from older peers or not."""
    server = Server(streams, **changes)
    for probe in ROWS[name]:
        exchange = await probe.to(server)
        assert exchange.status == probe.status, exchange.body
        assert b"mcp-session-id" not in exchange.headers
        if probe.code:
            assert exchange.json["error"]["code"] == probe.code
            assert ("id" in exchange.json) == (probe.code not in (-32700, -32600))
        elif probe.status == 405:
            assert exchange.headers[b"allow"] == b"POST"
        elif probe.status == 202:
            assert exchange.body == b""
        elif probe.status == 200:
            assert exchange.json["result"]["resultType"] == "complete"
        # Nothing has ended, and no client gained or lost access.
        assert (await answered(server, "tools/call", CALL))["content"][0]["text"] == "a"


@pytest.mark.requirement("DLG-T01")
async def test_discovery_lists_versions_without_negotiated_one(server: Server) -> None:
    result = await answered(server, "server/discover")
    assert "protocolVersion" not in result
    assert "experimental" not in result["capabilities"]
    assert V in result["supportedVersions"]


@pytest.mark.requirement("DLG-T01")
async def test_legacy_cancel_notification_does_not_cancel_modern_request(server: Server) -> None:
    desk = Desk()
    asked.offer(desk)
    waiting = modern(server, "tools/call", {"name": "silent"}, request_id=7)
    async with asyncio.timeout(10):
        await desk.begun.wait()
    assert (await told("$/cancelRequest", id=7).to(server)).status == 202
    assert not desk.cancelled.is_set()
    desk.go_on.set()
    await waiting.done()
    assert b'"done"' in waiting.body
    assert b"-32800" not in waiting.body


@pytest.mark.requirement("DLG-T01")
async def test_any_stop_reason_is_accepted_and_schemas_use_newest_dialect(
    server: Server,
) -> None:
    async def sampled(ctx: Context) -> str:
        """Samples."""
        return str((await ctx.asample("?", max_tokens=1, key="said"))["stopReason"])

    pair = {"type": "array", "prefixItems": [{"type": "integer"}], "items": False}
    schema = {"type": "object", "properties": {"pair": pair}}
    current_snapshot.replace(
        Catalogue(
            revision=6,
            revisions=dict.fromkeys(KINDS, 6),
            tools=[tool_entry(sampled), tool_entry(paired, 2, input_schema=schema)],
        )
    )
    capable = meta(**{CLIENT_CAPABILITIES: {"sampling": {}}})
    first = await answered(server, "tools/call", {"name": "sampled"}, told=capable)
    said = {
        "role": "assistant",
        "content": {"type": "text", "text": "."},
        "model": "m",
        "stopReason": "end_turn",
    }
    again = {"name": "sampled", "requestState": first["requestState"], "inputResponses": {"said": said}}
    result = await answered(server, "tools/call", again, told=capable)
    assert result["content"][0]["text"] == "end_turn"
    for arguments, wrong in (([1], False), (["x"], True), ([1, 2], True)):
        call = {"name": "paired", "arguments": {"pair": arguments}}
        assert (await answered(server, "tools/call", call)).get("isError", False) is wrong


def paired(pair: Any = None) -> str:
    """Takes one number in a list."""
    return str(pair)
