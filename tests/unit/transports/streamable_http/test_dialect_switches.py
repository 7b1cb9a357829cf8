"""Each dialect is off where its switch is off, and an unknown switch is a clear error."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from mcp_app import conf
from mcp_app.protocol import dialects
from mcp_app.streams.gateway import Streams
from tests.unit.transports.streamable_http.asgi import Server, hello, request


@pytest.fixture
async def published(streams: Streams) -> AsyncIterator[Server]:
    """Return a process that accepts only published protocol forms."""
    made = Server(streams, dialects=())
    yield made
    made.endpoint.connections.drain()


def unversioned() -> dict[str, Any]:
    params = hello()
    del params["protocolVersion"]
    return request("initialize", params)


@pytest.mark.requirement("DLG-000-03")
async def test_protocol_version_is_required_in_strict_mode(server: Server, published: Server) -> None:
    lenient = await server.send(message=unversioned()).done()
    assert lenient.json["result"]["protocolVersion"] == "2025-03-26"
    strict = await published.send(message=unversioned()).done()
    assert strict.json["error"]["code"] == -32602


@pytest.mark.requirement("DLG-004-10")
@pytest.mark.parametrize("method", ["POST", "GET"])
async def test_accept_header_is_required_in_strict_mode(published: Server, method: str) -> None:
    headers = await published.initialize()
    message = request("ping") if method == "POST" else None
    refused = await published.send(method, message, headers={**headers, "accept": None}).done()
    assert refused.status == 406


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
async def test_both_response_forms_must_be_accepted_in_strict_mode(
    server: Server, published: Server, accept: str
) -> None:
    for asked, status in ((server, 200), (published, 406)):
        headers = {**await asked.initialize(), "accept": accept}
        assert (await asked.send(message=request("ping"), headers=headers).done()).status == status


@pytest.mark.requirement("DLG-000-01", "DLG-000-02", "DLG-004-01")
async def test_older_notifications_are_ignored_if_disabled(server: Server, published: Server) -> None:
    for switched_on, asked in ((True, server), (False, published)):
        headers = await asked.initialize(ready=False)
        session_id = str(headers["mcp-session-id"])
        for name in ("initialized", "$/cancelRequest"):
            told = {"jsonrpc": "2.0", "method": name, "params": {"id": 5}}
            assert (await asked.send(message=told, headers=headers).done()).status == 202
        session = await asked.process.sessions.load(session_id, "loopback")
        assert session.initialized == switched_on
        assert (
            await asked.send(message={"jsonrpc": "2.0", "method": "exit"}, headers=headers).done()
        ).status == 202
        ping = await asked.send(message=request("ping"), headers=headers).done()
        assert ping.status == (404 if switched_on else 200)


@pytest.mark.requirement("HDR-12", "DLG-002-01")
@pytest.mark.parametrize(
    ("mode", "sent", "status"),
    [
        (dialects.OFF, b"tools/list", 200),
        (dialects.PRESENT, b"tools/list", 400),
        (dialects.PRESENT, b"ping", 200),
        (dialects.PRESENT, None, 200),
        (dialects.STRICT, b"ping", 200),
        (dialects.STRICT, None, 400),
    ],
)
async def test_routing_headers_mode_determines_strictness(
    streams: Streams, server: Server, mode: str, sent: bytes | None, status: int
) -> None:
    headers = await server.initialize()
    process = Server(streams, routing_headers=mode)
    more = [(b"mcp-method", sent)] if sent else []
    answer = await process.send(message=request("ping"), headers=headers, more=more).done()
    assert answer.status == status
    assert status == 200 or answer.json["error"]["code"] == -32001
    process.endpoint.connections.drain()


@pytest.mark.parametrize(
    "values", [{"DIALECTS": ["exit", "esperanto"]}, {"ROUTING_HEADERS": "always"}, {"DIALECTS": "exit"}]
)
def test_unknown_switch_is_rejected_by_name(values: dict[str, Any]) -> None:
    with pytest.raises(ImproperlyConfigured, match=next(iter(values))):
        conf.load(values)
