"""A second server below the endpoint, registered through the only seam and served by unchanged code."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from mcp_app import asgi, servers
from mcp_app.auth.own_addresses import canonical, metadata_url
from mcp_app.auth.principal import LOOPBACK
from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.catalogue.snapshots.snapshot import KINDS, Catalogue
from mcp_app.protocol.messages.server import Server as McpServer
from mcp_app.sessions.exchange import Exchange as ModernRequest
from mcp_app.sessions.exchange import restored
from mcp_app.streams.gateway import Streams
from mcp_app.transports.http_sse.endpoint import HttpSse
from tests.clients.envelopes import envelope_of
from tests.unit.catalogue.entries import tool_entry
from tests.unit.transports.streamable_http.asgi import Exchange, Server, hello, request
from tests.unit.transports.streamable_http.modern import answered, modern

PATH = "/mcp/toy"
TOY = McpServer("toy", "7", title="Toys", instructions="Play.", path=PATH)
PROJECTS_OWN = 299
LISTEN = {"notifications": {"toolsListChanged": True}}
Further = dict[str, McpServer]


def ball() -> str:
    """A toy."""
    return "rolls"


@pytest.fixture(autouse=True)
def further(monkeypatch: pytest.MonkeyPatch) -> Further:
    """Register servers below the endpoint; a test may remove them."""
    found = {PATH: TOY}
    monkeypatch.setattr(servers, "_providers", [])
    servers.register(lambda: found)
    return found


@pytest.fixture(autouse=True)
def _one_tool() -> None:
    offer(5)


@pytest.fixture
async def server(server: Server) -> Server:
    """Return one process behind the router of a project."""
    application = asgi.get_application(project)
    application.routes["/mcp"] = server.endpoint
    application.routes |= dict.fromkeys(
        ("/sse", "/messages", "/messages/"), HttpSse(server.process, server.endpoint)
    )
    server.application = application
    return server


async def project(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": PROJECTS_OWN, "headers": []})
    await send({"type": "http.response.body", "body": scope["path"].encode()})


def offer(revision: int) -> None:
    current_snapshot.replace(
        Catalogue(revision=revision, revisions=dict.fromkeys(KINDS, revision), tools=[tool_entry(ball)])
    )


def quick(server: Server, exchange: Exchange, path: str) -> Any:
    """Return the short cut's answer to the same request."""
    body = exchange._body
    assert body is not None
    return server.endpoint.quick(exchange.scope["headers"], body, "127.0.0.1", path)


@pytest.mark.parametrize("path", [PATH, f"{PATH}/"])
async def test_further_server_answers_with_its_own_name_and_instructions(path: str, server: Server) -> None:
    opened = await server.send(message=request("initialize", hello()), path=path).done()
    assert opened.json["result"]["serverInfo"] == TOY.info
    assert opened.json["result"]["instructions"] == "Play."
    headers = await server.initialize(path=path)
    listed = await server.send(message=request("tools/list"), headers=headers, path=path).done()
    assert [tool["name"] for tool in listed.json["result"]["tools"]] == ["ball"]
    own = await server.send(message=request("initialize", hello())).done()
    assert own.json["result"]["serverInfo"] == server.process.views.server.info


async def test_modern_request_is_answered_as_the_server_of_its_path(server: Server) -> None:
    for path, named in ((PATH, TOY), ("/mcp", server.process.views.server)):
        found = await answered(server, "server/discover", path=path)
        assert found["_meta"] == named.meta
        assert found.get("instructions", "") == named.instructions


async def test_short_cut_answers_for_the_server_of_the_path(server: Server) -> None:
    exchange = modern(server, "tools/list", path=PATH)
    assert orjson.loads(quick(server, exchange, PATH))["result"]["_meta"] == TOY.meta
    assert quick(server, exchange, "/mcp/unknown") is None
    await exchange.done()


@pytest.mark.parametrize(("made_at", "asked_at"), [(PATH, "/mcp"), ("/mcp", PATH)])
async def test_session_is_answered_at_its_own_path_only(
    made_at: str, asked_at: str, server: Server, streams: Streams
) -> None:
    headers = await server.initialize(path=made_at)
    other = Server(streams)  # It knows the session by its stored form.
    for process in (server, other):
        for method, message in (("POST", request("tools/list")), ("GET", None), ("DELETE", None)):
            refused = process.send(method, message, headers=headers, path=asked_at)
            assert quick(process, refused, asked_at) is None
            assert (await refused.done()).status == 404
        pairs = [(name.encode(), value.encode()) for name, value in headers.items() if value]
        assert process.endpoint.quick_delete([*pairs, (b"host", b"127.0.0.1")], "127.0.0.1", asked_at) is None
        served = await process.send(message=request("tools/list"), headers=headers, path=made_at).done()
        assert served.status == 200


async def connected(server: Server, path: str) -> tuple[Exchange, str]:
    """Open a connection of HTTP+SSE; return it and the address for messages."""
    stream = server.send("GET", headers={"accept": "text/event-stream"}, path=path)
    await stream.until(b"session_id=")
    return stream, (stream.events[0].data or b"").decode()


@pytest.mark.parametrize(
    ("path", "messages", "named"), [("/sse/toy", "/messages/toy", "toy"), ("/sse", "/messages/", "")]
)
async def test_http_sse_connection_is_served_by_the_server_of_its_path(
    path: str, messages: str, named: str, server: Server
) -> None:
    stream, address = await connected(server, path)
    assert address.partition("?")[0] == messages
    for message in (request("initialize", hello("2024-11-05")), request("tools/list", request_id=2)):
        assert (await server.send(message=message, path=address).done()).status == 202
        await stream.until(b'"id":%d' % message["id"])
    opened, listed = (orjson.loads(event.data) for event in stream.events[1:] if event.data)
    own = server.process.views.server
    assert opened["result"]["serverInfo"]["name"] == (named or own.name)
    assert [tool["name"] for tool in listed["result"]["tools"]] == ["ball"]
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert (await server.send(message=ready, path=address).done()).status == 202
    offer(6)
    server.process.catalogue_refresher._run_callbacks()
    await stream.until(b"tools/list_changed")
    stream.gone.set()
    await stream.done()


@pytest.mark.parametrize(("opened_at", "asked_at"), [("/sse/toy", "/messages/"), ("/sse", "/messages/toy")])
async def test_http_sse_session_is_answered_at_its_own_path_only(
    opened_at: str, asked_at: str, server: Server
) -> None:
    stream, address = await connected(server, opened_at)
    other = f"{asked_at}?{address.partition('?')[2]}"
    hi = request("initialize", hello("2024-11-05"))
    assert (await server.send(message=hi, path=other).done()).status == 404
    assert (await server.send(message=hi, path=address).done()).status == 202
    stream.gone.set()
    await stream.done()


async def test_http_sse_connection_of_a_removed_server_ends(server: Server, further: Further) -> None:
    stream, address = await connected(server, "/sse/toy")
    own, own_address = await connected(server, "/sse")
    further.clear()
    server.process.catalogue_refresher._run_callbacks()
    await stream.done()
    assert stream.is_complete
    hi = request("initialize", hello("2024-11-05"))
    assert (await server.send(message=hi, path=address).done()).status == PROJECTS_OWN
    assert (await server.send(message=hi, path=own_address).done()).status == 202
    server.application = HttpSse(server.process, server.endpoint)
    for method, path in (("GET", "/sse/toy"), ("POST", address)):
        refused = server.send(method, hi, headers={"accept": "text/event-stream"}, path=path)
        assert (await refused.done()).status == 404
    own.gone.set()
    await own.done()


@pytest.mark.parametrize(
    "path",
    ["/mcp/unknown", "/mcp/unknown/", "/mcp/toy/more", "/mcp/.well-known/x", "/sse/unknown", "/message/toy",
     "/console/messages/toy", "/mcp/toy/sse"],
)  # fmt: skip
async def test_unknown_path_below_the_endpoint_is_the_projects(path: str, server: Server) -> None:
    answer = await server.send(message=request("initialize", hello()), path=path).done()
    assert (answer.status, answer.body) == (PROJECTS_OWN, path.encode())


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        ("/.well-known/oauth-protected-resource/mcp/toy", "/mcp/toy"),
        ("/mcp/toy/.well-known/oauth-protected-resource", "/mcp/toy"),
        ("/.well-known/oauth-protected-resource/sse/toy", "/sse/toy"),
        ("/sse/toy/.well-known/oauth-protected-resource", "/sse/toy"),
    ],
)
async def test_metadata_is_found_under_the_address_of_its_server(
    path: str, resource: str, server: Server, further: Further, settings: Any
) -> None:
    settings.MCP = {
        **settings.MCP,
        "AUTH": "external",
        "OAUTH_ISSUER": "https://login.example",
        "PUBLIC_URL": "https://mcp.example",
    }
    found = (await server.send("GET", path=path).done()).json
    assert (found["resource"], found["resource_name"]) == (f"https://mcp.example{resource}", "Toys")
    known = "https://mcp.example/.well-known/oauth-protected-resource"
    assert metadata_url("", resource) == known + resource
    # A POST of HTTP+SSE is challenged with the resource of its server.
    assert metadata_url("", "/messages/toy") == f"{known}/mcp/toy"
    # A token for one transport is valid for the other.
    assert canonical(f"https://MCP.example:443{resource}/") == "https://mcp.example/mcp/toy"
    further.clear()
    assert (await server.send("GET", path=path).done()).status == PROJECTS_OWN
    assert canonical("https://mcp.example/mcp/toy") == ""


async def test_removed_server_is_answered_as_an_unknown_path(server: Server, further: Further) -> None:
    headers = await server.initialize(path=PATH)
    further.clear()
    for message in (request("initialize", hello()), request("tools/list")):
        routed = await server.send(message=message, headers=headers, path=PATH).done()
        assert routed.status == PROJECTS_OWN
    # A request that was routed before the removal.
    server.application = server.endpoint
    for message in (request("initialize", hello()), request("tools/list")):
        assert (await server.send(message=message, headers=headers, path=PATH).done()).status == 404
    assert (await modern(server, "tools/list", path=PATH).done()).status == 404


async def test_streams_of_a_removed_server_end_and_others_continue(server: Server, further: Further) -> None:
    listening = {}
    for path in (PATH, "/mcp"):
        stream = server.listen(await server.initialize(path=path), path=path)
        subscription = modern(server, "subscriptions/listen", LISTEN, path=path)
        await stream.until(b"id:")
        await subscription.until(b"acknowledged")
        listening[path] = (stream, subscription)
    further.clear()
    offer(6)
    server.process.catalogue_refresher._run_callbacks()
    for stream in listening[PATH]:
        await stream.done()
        assert stream.is_complete
        assert b"list_changed" not in stream.body
    for stream in listening["/mcp"]:
        await stream.until(b"tools/list_changed")
        stream.gone.set()
        await stream.done()


async def test_stored_request_names_its_server_and_after_a_removal_the_installation(
    server: Server, further: Further
) -> None:
    exchange = ModernRequest(envelope_of(), LOOPBACK.key, TOY)
    again = restored(exchange.id, exchange.stored())
    assert again.server is TOY
    assert again.record_id == exchange.record_id
    assert exchange.record_id != ModernRequest(envelope_of(), LOOPBACK.key, servers.at("/mcp")).record_id
    further.clear()
    ended = restored(exchange.id, exchange.stored())
    assert (ended.path, ended.record_id) == (PATH, exchange.record_id)
    assert ended.fit("tools/list", {"tools": []})["_meta"] == servers.at("/mcp").meta
    view = server.process.views.of(LOOPBACK.permissions, PATH)
    assert view.tool("ball") is None
    assert view.server.removed


async def test_initialize_results_follow_the_identity_of_a_server_and_stay_bounded(
    server: Server, further: Further
) -> None:
    kept = server.process.initialize_results
    for instructions in ("Play.", "Play.", "Rest."):
        further[PATH] = McpServer("toy", "7", title="Toys", instructions=instructions, path=PATH)
        opened = await server.send(message=request("initialize", hello()), path=PATH).done()
        assert opened.json["result"]["instructions"] == instructions
    assert len(kept) == 2
    for number in range(300):
        further[PATH] = McpServer("toy", str(number), path=PATH)
        await server.initialize(path=PATH, ready=False)
    assert len(kept) <= 256
