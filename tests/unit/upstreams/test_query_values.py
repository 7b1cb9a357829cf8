"""Values in the query of a server's URL may be keys: no record, no error and no state contains them."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest

from mcp_app.conf import Settings
from mcp_app.credentials.outgoing import stored
from mcp_app.observability.correlation import Correlation, correlated
from mcp_app.observability.redaction import Redactor, without_query_values
from mcp_app.protocol.client import outgoing
from mcp_app.protocol.client.faults import UpstreamFault
from mcp_app.protocol.versions import V2025_11_25
from mcp_app.upstreams import connection
from mcp_app.upstreams.server import UpstreamServer
from tests.unit.egress.sites import Heard, response, serve_kept

pytestmark = pytest.mark.requirement("INT-05")
KEY = "k3y/of+the=server"
BARE = "a-bare-key-0001"
SHORT = "n1-2"
QUERY = f"workspace={quote(KEY, safe='')}&n={SHORT}&{BARE}"
PEER = outgoing.Peer(V2025_11_25, "session-1")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://a.example/mcp", "https://a.example/mcp"),
        ("https://a.example/mcp?", "https://a.example/mcp?"),
        ("https://a.example/mcp?k=v", "https://a.example/mcp?k=[redacted]"),
        ("https://a.example/mcp?k=v?w=x&y=", "https://a.example/mcp?k=[redacted]&y=[redacted]"),
        ("https://a.example/mcp?key&a=b=c", "https://a.example/mcp?[redacted]&a=[redacted]"),
    ],
)
def test_url_is_shown_without_the_values_of_its_query(url: str, shown: str) -> None:
    assert without_query_values(url) == shown


def error(text: str) -> bytes:
    fault = {"code": -32000, "message": f"No access with {text}."}
    return json.dumps({"jsonrpc": "2.0", "id": "a-1", "error": fault}).encode()


ANSWERS = {
    "result": response(b'{"jsonrpc":"2.0","id":"a-1","result":{"content":["%b"]}}' % KEY.encode()),
    "error": response(error(KEY)),
    "encoded in an error": response(error(quote(KEY, safe=""))),
    "refusal": response(error(KEY), status="400 Bad Request"),
    "text": response(f"No {KEY} {BARE}".encode(), status="500 Error", kind="text/plain"),
    "type": response(b"", kind=f"text/{BARE}"),
    "login": response(b"{}", f'WWW-Authenticate: Bearer error="{BARE}"', status="401 Unauthorized"),
    "scope": response(
        b"{}",
        f'WWW-Authenticate: Bearer error="insufficient_scope", scope="{BARE}"',
        status="403 Forbidden",
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
async def test_repeated_value_is_in_no_record_and_no_error(name: str, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "EGRESS_ALLOW": ("127.0.0.0/8",), "MESSAGE_LOG_PAYLOAD_BYTES": 2_000}
    heard: list[Heard] = []
    sent: list[Any] = []
    fault = ""

    async def handle(request: Heard, writer: Any) -> None:
        heard.append(request)
        writer.write(ANSWERS[name])

    async with serve_kept(handle) as site:
        server = UpstreamServer(1, "other", f"http://127.0.0.1:{site.port}/mcp?{QUERY}")
        message = outgoing.request(PEER, outgoing.Identity({}), "a-1", "tools/call", {"name": "x"})
        with correlated(Correlation(sent=sent)):
            try:
                await connection.post(server, message, seconds=5.0)
            except UpstreamFault as failed:
                fault = str(failed)
    assert heard[0].line.split(" ")[1] == f"/mcp?{QUERY}"
    (record,) = stored([each.copy() for each in sent], Redactor(Settings().redacted_names), b"{}", 2_000)
    assert record["url"].endswith("/mcp?workspace=[redacted]&n=[redacted]&[redacted]")
    shown = f"{json.dumps(record)} {fault}"
    assert [value for value in (KEY, quote(KEY, safe=""), BARE, SHORT) if value in shown] == []
    assert (fault == "") == (name == "result")
