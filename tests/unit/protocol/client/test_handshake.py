"""The era of a server follows from its answer to ``server/discover``, and HTTP statuses become faults."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from mcp_app.protocol.client import handshake, outgoing
from mcp_app.protocol.client.faults import OUTAGES, Kind, UpstreamFault
from mcp_app.protocol.messages.envelope import SERVER_INFO
from mcp_app.protocol.versions import LEGACY, V2024_11_05, V2025_11_25, V2026_07_28

IDENTITY = outgoing.Identity({"name": "us", "version": "1"})
MODERN = outgoing.Peer(V2026_07_28)
SESSION = outgoing.Peer(V2025_11_25, "session-1")


def error(code: int, message: str = "No.", data: Any = None) -> bytes:
    members = {"code": code, "message": message, **({"data": data} if data is not None else {})}
    return orjson.dumps({"jsonrpc": "2.0", "error": members})


def test_modern_server_is_recognized_by_its_versions() -> None:
    result = {
        "supportedVersions": ["2027-01-01", V2026_07_28, V2025_11_25],
        "capabilities": {"tools": {}},
        "instructions": "Read me.",
        "_meta": {SERVER_INFO: {"name": "them"}},
    }
    assert handshake.discovered(result) == outgoing.Peer(
        V2026_07_28, "", {"name": "them"}, {"tools": {}}, "Read me."
    )


@pytest.mark.parametrize("versions", [[V2025_11_25], [V2024_11_05, 5]])
def test_server_that_lists_older_versions_is_legacy(versions: list[Any]) -> None:
    assert handshake.discovered({"supportedVersions": versions}) is None


@pytest.mark.parametrize("versions", [None, [], ["2030-01-01"], "2026-07-28"])
def test_server_without_a_known_version_is_refused(versions: Any) -> None:
    with pytest.raises(UpstreamFault) as fault:
        handshake.discovered({"supportedVersions": versions})
    assert fault.value.kind == Kind.UNSUPPORTED


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (200, error(-32601), True),
        (400, error(-32601), True),
        (400, error(-32000, "Bad Request: Server not initialized"), True),
        (400, error(-32602), True),
        (400, b"", True),
        (404, b"not found", True),
        (405, b"", True),
        (406, b"", True),
        (500, b"oops", True),
        (400, error(-32022, data={"supported": [V2025_11_25]}), True),
        (400, error(-32020), False),
        (400, error(-32021), False),
        (302, b"", False),
        (401, b"", False),
        (403, error(-32600), False),
        (429, b"", False),
        (502, b"", False),
        (503, error(-32603), False),
    ],
)
def test_refused_probe_shows_the_era(status: int, body: bytes, expected: bool) -> None:
    fault = handshake.fault_of(status, body, in_session=False)
    assert handshake.is_legacy(fault) is expected


def test_newer_server_without_a_common_version_is_not_taken_for_an_older_one() -> None:
    fault = handshake.fault_of(400, error(-32022, data={"supported": ["2030-01-01"]}), in_session=False)
    with pytest.raises(UpstreamFault) as raised:
        handshake.is_legacy(fault)
    assert raised.value.kind == Kind.UNSUPPORTED


@pytest.mark.parametrize("version", LEGACY)
def test_each_legacy_version_is_accepted(version: str) -> None:
    peer = handshake.initialized({"protocolVersion": version, "serverInfo": {"name": "x"}}, "abc")
    assert (peer.version, peer.session, peer.info) == (version, "abc", {"name": "x"})


@pytest.mark.parametrize(
    ("result", "session", "kind"),
    [
        ({"protocolVersion": V2026_07_28}, None, Kind.UNSUPPORTED),
        ({"protocolVersion": 1}, None, Kind.UNSUPPORTED),
        ({}, None, Kind.UNSUPPORTED),
        ({"protocolVersion": V2025_11_25}, "a b", Kind.INVALID),
        ({"protocolVersion": V2025_11_25}, "x" * 1_025, Kind.INVALID),
    ],
)
def test_wrong_handshake_is_refused(result: dict[str, Any], session: str | None, kind: Kind) -> None:
    with pytest.raises(UpstreamFault) as fault:
        handshake.initialized(result, session)
    assert fault.value.kind == kind


@pytest.mark.parametrize(
    ("status", "body", "in_session", "kind"),
    [
        (401, b"", True, Kind.LOGIN),
        (403, b"", False, Kind.LOGIN),
        (404, b"", True, Kind.EXPIRED),
        (404, b"", False, Kind.NOT_MCP),
        (400, error(-32000, "Bad Request: No valid session ID provided"), True, Kind.EXPIRED),
        (400, error(-32602, "session is not a valid argument"), True, Kind.REFUSED),
        (400, error(-32000, "No valid session ID"), False, Kind.REFUSED),
        (301, b"", False, Kind.NOT_MCP),
        (429, error(-32000), False, Kind.BUSY),
        (503, b"", True, Kind.BUSY),
        (500, b"\xff", False, Kind.NOT_MCP),
        (500, error(-32603), False, Kind.REFUSED),
    ],
)
def test_status_becomes_a_fault_of_its_kind(status: int, body: bytes, in_session: bool, kind: Kind) -> None:
    fault = handshake.fault_of(status, body, in_session=in_session)
    assert (fault.kind, fault.status) == (kind, status)
    assert (fault.kind in OUTAGES) is (kind == Kind.BUSY)
    assert fault.sent is (kind != Kind.EXPIRED)


# Requests.


def test_modern_request_carries_the_handshake_and_routing_headers() -> None:
    sent = outgoing.request(
        MODERN, IDENTITY, "p-1", "tools/call", {"name": "größe", "arguments": {}}, progress=True,
        log_level="info", meta={"django-mcp/hops": 1},
    )  # fmt: skip
    meta = orjson.loads(sent.body)["params"]["_meta"]
    assert meta == {
        "django-mcp/hops": 1,
        "progressToken": "p-1",
        "io.modelcontextprotocol/protocolVersion": V2026_07_28,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "us", "version": "1"},
        "io.modelcontextprotocol/logLevel": "info",
    }
    headers = dict(sent.headers)
    assert headers["Mcp-Method"] == "tools/call"
    assert headers["Mcp-Name"] == "=?base64?Z3LDtsOfZQ==?="
    assert "Mcp-Session-Id" not in headers


def test_legacy_request_carries_its_session() -> None:
    sent = outgoing.request(SESSION, IDENTITY, "p-2", "tools/list", {})
    assert "_meta" not in orjson.loads(sent.body)["params"]
    headers = dict(sent.headers)
    assert (headers["Mcp-Session-Id"], headers["MCP-Protocol-Version"]) == ("session-1", V2025_11_25)
    assert "Mcp-Method" not in headers
    assert dict(outgoing.ended(SESSION)) == {
        "Mcp-Session-Id": "session-1",
        "MCP-Protocol-Version": V2025_11_25,
    }


def test_oldest_revisions_have_no_version_header() -> None:
    sent = outgoing.request(outgoing.Peer(V2024_11_05, "s"), IDENTITY, 1, "ping", {})
    assert "MCP-Protocol-Version" not in dict(sent.headers)
