"""Cases that official clients lack: older revisions, and the probe of a dual-era client."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clients.raw_http import Mcp
from tests.interop import walk
from tests.servers.live import LiveServer

pytestmark = [pytest.mark.process, pytest.mark.xdist_group("interop")]
PROBE = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}


def _ask(client: Mcp, name: str) -> dict[str, Any]:
    """Call a tool that elicits, answer at another process, and return its response."""
    stream = client.open_call("tools/call", {"name": name, "arguments": {}})
    question = stream.message()
    assert question["method"] == "elicitation/create"
    assert client.respond(question["id"], {"action": "accept", "content": {"name": "Ada"}}).status == 202
    response: dict[str, Any] = stream.message()
    stream.close()
    return response


@pytest.mark.requirement("CONF-02")
@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2025-11-25"])
def test_each_revision_lists_and_calls_everything(live: LiveServer, page_url: str, version: str) -> None:
    client = live.mcp()
    # Elicitation was added in 2025-06-18.
    asks = version >= "2025-06-18"
    assert client.initialize(version, {"elicitation": {}})["protocolVersion"] == version
    calls = {}
    for name, arguments in walk.arguments(page_url).items():
        asked = asks and name == "ask_name"
        result = (_ask(client, name) if asked else client.tool(name, **arguments))["result"]
        structured = result.get("structuredContent")
        assert structured is None or version >= "2025-06-18"
        text = "".join(block.get("text", "") for block in result["content"])
        # The older revision has structured content as text only.
        structured = structured or ({"result": 42} if text == '{"result":42}' else None)
        calls[name] = {"text": text, "structured": structured, "isError": bool(result.get("isError"))}
    tools = [tool["name"] for tool in client.call("tools/list")["result"]["tools"]]
    walk.check({"tools": tools, "calls": calls}, asks=asks)
    assert client.delete().status == 200
    client.close()


@pytest.mark.requirement("DISC-06")
def test_discover_inside_a_legacy_session_is_method_not_found(live: LiveServer) -> None:
    client = live.mcp()
    client.initialize()
    assert client.call("server/discover")["error"]["code"] == -32601
    client.delete()
    client.close()


def test_modern_probe_is_refused_so_that_the_client_falls_back(live: LiveServer) -> None:
    client = live.mcp()
    answer = client.post(client.request_message("server/discover", PROBE), MCP_Protocol_Version="2026-07-28")
    assert answer.status == 400
    # A code of the newer era would indicate that this server supports it.
    assert answer.json()["error"]["code"] not in (-32020, -32021, -32022)
    client.close()


@pytest.mark.requirement("SEC-10")
@pytest.mark.parametrize("url", ["http://169.254.169.254/latest/meta-data", "http://[::ffff:10.0.0.1]/"])
def test_web_tool_refuses_internal_addresses(live: LiveServer, url: str) -> None:
    client = live.mcp()
    client.initialize()
    assert client.tool("web_scrape", url=url)["result"]["isError"] is True
    client.delete()
    client.close()
