"""Revisions on one endpoint: negotiation and the version header."""

from __future__ import annotations

import pytest

from tests.clients.raw_http import Mcp
from tests.integration.http.conftest import OpenSession
from tests.servers.live import LiveServer

LEGACY = ("2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
MODERN_META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.mark.requirement("VER-02")
@pytest.mark.parametrize(
    ("requested", "answered"),
    [
        *((version, version) for version in LEGACY),
        ("2024-11-05", "2024-11-05"),
        (MODERN, "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
        ("9999-12-31", "2025-11-25"),
        ("", "2025-11-25"),
        ("DRAFT-2026", "2025-11-25"),
    ],
)
def test_supported_revision_is_accepted_and_any_other_gets_the_newest(
    client: Mcp, requested: str, answered: str
) -> None:
    assert client.initialize(requested)["protocolVersion"] == answered


@pytest.mark.requirement("VER-01", "VER-02")
def test_disabled_revision_is_not_negotiated(open_strict: OpenSession, key: str) -> None:
    client = open_strict("2025-06-18", token=key)
    assert client.server["protocolVersion"] == "2025-06-18"
    client.delete()
    assert client.initialize("2025-03-26")["protocolVersion"] == "2025-11-25"


@pytest.mark.requirement("VER-04")
@pytest.mark.parametrize("header", ["bogus", "2026-07-28", "1999-01-01", "2025-11-25x", ""])
def test_invalid_version_header_is_refused(client: Mcp, header: str) -> None:
    for answer in (
        client.post(client.request_message("ping"), MCP_Protocol_Version=header),
        client.client.request("DELETE", "/mcp", client.headers(MCP_Protocol_Version=header)),
        client.client.request("GET", "/mcp", client.headers(MCP_Protocol_Version=header)),
    ):
        assert 400 <= answer.status < 500
        assert answer.json()["error"]["code"] < 0
    assert client.call("ping")["result"] == {}


@pytest.mark.requirement("VER-05")
@pytest.mark.parametrize("version", LEGACY)
def test_missing_version_header_uses_the_negotiated_revision(open_session: OpenSession, version: str) -> None:
    client = open_session(version)
    client.version = None
    wrong = client.call("tools/call", {"name": "steps", "arguments": {"count": "many"}})
    # Wrong arguments are a protocol error before 2025-11-25, and a tool result since then.
    assert ("error" in wrong) == (version < "2025-11-25")
    batch = client.post([client.request_message("ping")])
    assert (batch.status == 200) == (version == "2025-03-26")


@pytest.mark.requirement("VER-06")
@pytest.mark.parametrize("header", ["2024-11-05", "2025-03-26", "2025-06-18"])
def test_other_legacy_version_header_is_ignored_and_logged_once(
    live: LiveServer, open_session: OpenSession, header: str
) -> None:
    client = open_session("2025-11-25")
    before = live.logs().count(f"sends version b'{header}'")
    for _ in range(3):
        params = {"name": "steps", "arguments": {"count": "many"}}
        answer = client.post(client.request_message("tools/call", params), MCP_Protocol_Version=header)
        assert answer.json()["result"]["isError"] is True
    assert live.logs().count(f"sends version b'{header}'") == before + 1


@pytest.mark.requirement("ERA-02")
def test_initialize_is_legacy_despite_version_and_method_headers(client: Mcp) -> None:
    params = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    }
    client.session = client.version = None
    message = client.request_message("initialize", params)
    answer = client.post(message, MCP_Protocol_Version="2025-11-25", Mcp_Method="initialize")
    assert answer.status == 200
    assert answer.json()["result"]["protocolVersion"] == "2025-06-18"
