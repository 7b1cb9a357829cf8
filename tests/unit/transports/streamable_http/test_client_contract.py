"""The client half of the protocol speaks with the server half, in every revision and without I/O."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from mcp_app import Context, ToolError
from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.catalogue.snapshots.snapshot import KINDS, Catalogue
from mcp_app.protocol.client import handshake, outgoing
from mcp_app.protocol.client.answers import Answered, AnswerReader, Budget, LogLine, Progress
from mcp_app.protocol.client.faults import Kind, UpstreamFault
from mcp_app.protocol.client.outgoing import Identity, Outgoing, Peer
from mcp_app.protocol.client.pages import Pages
from mcp_app.protocol.errors import MissingCapability
from mcp_app.protocol.http import param_headers
from mcp_app.protocol.versions import SERVED
from mcp_app.streams.gateway import Streams
from tests.unit.catalogue.entries import tool_entry
from tests.unit.transports.streamable_http.asgi import LOOPBACK, Server

IDENTITY = Identity({"name": "contract", "version": "1"})
BUDGET = Budget()


async def steps(ctx: Context, number: int) -> str:
    """Report each step."""
    for step in range(1, number + 1):
        ctx.progress(step, number, f"step {step}")
    ctx.warning("done soon", steps=number)
    return f"{number} steps"


async def broken() -> str:
    """Fail."""
    raise ToolError("Not today.")


async def asking(ctx: Context) -> str:
    """Ask for the roots of the client."""
    return str(await ctx.aroots())


async def region(where: str) -> str:
    """Return the region."""
    return where


@pytest.fixture(params=SERVED)
async def server(request: Any, streams: Streams) -> AsyncIterator[Server]:
    """Return a server of one revision, with a few tools."""
    functions: list[Any] = [steps, broken, asking, region]
    entries = [tool_entry(each, number) for number, each in enumerate(functions, 1)]
    before = current_snapshot.replace(
        Catalogue(revision=5, revisions=dict.fromkeys(KINDS, 5), tools=entries, page_size=2)
    )
    made = Server(streams, LOOPBACK, versions=(request.param,))
    yield made
    made.endpoint.connections.drain()
    await made.process.calls.close(0.01)
    current_snapshot.replace(before)


async def exchange(
    server: Server, sent: Outgoing, *, in_session: bool = False
) -> tuple[list[Any], str | None]:
    """Return the events of the answer, read a few bytes at a time, and the header with a session id."""
    headers: dict[str, str | None] = dict(sent.headers)
    answer = await server.send(body=sent.body, headers={k.lower(): v for k, v in headers.items()}).done()
    found = answer.headers
    session = found.get(b"mcp-session-id", b"").decode() or None
    if sent.id is None:
        assert (answer.status, answer.body) == (202, b"")
        return [], session
    if answer.status != 200:
        raise handshake.fault_of(answer.status, answer.body, in_session=in_session)
    reader = AnswerReader(sent.id, BUDGET)
    if found[b"content-type"].startswith(b"application/json"):
        return reader.whole(answer.body), session
    events = []
    for start in range(0, len(answer.body), 7):
        events += reader.feed(answer.body[start : start + 7])
    reader.end()
    return events, session


async def connected(server: Server) -> Peer:
    """Probe the era and complete the handshake, as the transport does."""
    try:
        (answer,), _ = await exchange(server, outgoing.discover(IDENTITY, "n-0"))
        peer = handshake.discovered(answer.result)
    except UpstreamFault as fault:
        peer = None
        if not handshake.is_legacy(fault):
            raise
    if peer is not None:
        return peer
    (answer,), session = await exchange(server, outgoing.initialize(IDENTITY, "n-1", SERVED[1]))
    peer = handshake.initialized(answer.result, session)
    await exchange(server, outgoing.initialized(peer))
    return peer


async def call(server: Server, peer: Peer, name: str, arguments: dict[str, Any], **more: Any) -> list[Any]:
    params = {"name": name, "arguments": arguments}
    sent = outgoing.request(
        peer, IDENTITY, "n-2", "tools/call", params, progress=True, log_level="info", **more
    )
    events, _ = await exchange(server, sent)
    return events


async def test_era_and_revision_are_found(server: Server) -> None:
    peer = await connected(server)
    assert (peer.version,) == server.process.settings.versions
    assert bool(peer.session) is not peer.is_modern
    assert "tools" in peer.capabilities
    assert peer.info["name"]


async def test_list_is_read_to_its_last_page(server: Server) -> None:
    peer, pages = await connected(server), Pages("tools")
    params: dict[str, Any] = {}
    for number in range(10):
        sent = outgoing.request(peer, IDENTITY, f"l-{number}", "tools/list", params)
        (answer,), _ = await exchange(server, sent)
        cursor = pages.take(answer.result)
        if cursor is None:
            break
        params = {"cursor": cursor}
    assert [item["name"] for item in pages.items] == ["steps", "broken", "asking", "region"]


async def test_call_returns_progress_logs_and_the_result(server: Server) -> None:
    peer = await connected(server)
    events = await call(server, peer, "steps", {"number": 2})
    assert [event.progress for event in events if isinstance(event, Progress)] == [1.0, 2.0]
    assert [event.level for event in events if isinstance(event, LogLine)] == ["warning"]
    assert isinstance(events[-1], Answered)
    assert events[-1].result["content"] == [{"type": "text", "text": "2 steps"}]


async def test_errors_of_tools_and_of_the_protocol_differ(server: Server) -> None:
    peer = await connected(server)
    with pytest.raises(UpstreamFault) as fault:
        await call(server, peer, "absent", {})
    assert (fault.value.kind, fault.value.code) == (Kind.REFUSED, -32602)
    (answer,) = await call(server, peer, "broken", {})
    assert answer.result["isError"] is True


async def test_undeclared_question_is_not_asked(server: Server) -> None:
    peer = await connected(server)
    if peer.is_modern:
        with pytest.raises(UpstreamFault) as fault:
            await call(server, peer, "asking", {})
        assert fault.value.code == MissingCapability.code
    else:
        (answer,) = await call(server, peer, "asking", {})
        assert answer.result["isError"] is True


async def test_ended_session_is_named(server: Server) -> None:
    peer = await connected(server)
    if peer.is_modern:
        return
    await server.process.sessions.end(peer.session, "the test ends it")
    sent = outgoing.request(peer, IDENTITY, "n-9", "tools/list", {})
    with pytest.raises(UpstreamFault) as fault:
        await exchange(server, sent, in_session=True)
    assert (fault.value.kind, fault.value.sent) == (Kind.EXPIRED, False)


async def test_server_accepts_answers_and_notifications_without_a_body(server: Server) -> None:
    peer = await connected(server)
    if peer.is_modern:
        pytest.skip("the modern era has no requests of servers")
    sent = [
        outgoing.declined(peer, 5, "roots/list"), outgoing.answered(peer, 6, {}),
        outgoing.cancelled(peer, "n-2"),
    ]  # fmt: skip
    for each in sent:
        # ``exchange`` checks the status 202 of messages without an answer.
        assert await exchange(server, each) == ([], None)


async def test_annotated_arguments_are_repeated_as_headers(server: Server) -> None:
    schema = {"type": "object", "properties": {"where": {"type": "string", "x-mcp-header": "Region"}}}
    repeated = param_headers.read(schema)
    assert param_headers.sent(repeated, {"where": "tür"}) == (("Mcp-Param-Region", "=?base64?dMO8cg==?="),)
    assert param_headers.sent(repeated, {}) == ()
    sent = param_headers.sent(repeated, {"where": "eu"})
    fields = {name.lower().encode(): value.encode() for name, value in sent}
    assert param_headers.mismatch(repeated, fields, {"where": "eu"}) is None
    events = await call(server, await connected(server), "region", {"where": "eu"}, headers=sent)
    assert events[-1].result["content"][0]["text"] == "eu"
