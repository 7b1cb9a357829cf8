"""2026-07-28: served methods, response forms, and members that results and errors must or must not have."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_app import Context
from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.catalogue.snapshots.snapshot import KINDS, Catalogue
from mcp_app.protocol.capabilities import server_capabilities
from mcp_app.protocol.messages.envelope import CLIENT_CAPABILITIES, CLIENT_INFO
from mcp_app.streams.base import StreamsUnavailable
from mcp_app.streams.gateway import Streams
from tests.samples import published_schema
from tests.unit.catalogue.entries import resource_entry
from tests.unit.transports.streamable_http import modern as asked
from tests.unit.transports.streamable_http.asgi import Server, request
from tests.unit.transports.streamable_http.modern import Desk, V, answered, in_one_piece, meta, modern

SERVER_INFO = "io.modelcontextprotocol/serverInfo"
HINTED = {
    "server/discover": ("DiscoverResult", {}),
    "tools/list": ("ListToolsResult", {}),
    "prompts/list": ("ListPromptsResult", {}),
    "resources/list": ("ListResourcesResult", {}),
    "resources/templates/list": ("ListResourceTemplatesResult", {}),
    "resources/read": ("ReadResourceResult", {"uri": "notes://all"}),
}
TOPIC = {
    "ref": {"type": "ref/prompt", "name": "review"},
    "argument": {"name": "topic", "value": "t"},
}
OTHER: list[tuple[str, str, dict[str, Any]]] = [
    ("tools/call", "CallToolResult", {"name": "at_once", "arguments": {"text": "a"}}),
    ("tools/call", "CallToolResult", {"name": "in_thread", "arguments": {"text": "a"}}),
    ("tools/call", "CallToolResult", {"name": "at_once", "arguments": {"text": 7}}),
    ("tools/call", "CallToolResult", {"name": "fails"}),
    ("tools/call", "CallToolResult", {"name": "breaks"}),
    ("prompts/get", "GetPromptResult", {"name": "review", "arguments": {"topic": "tea"}}),
    ("completion/complete", "CompleteResult", TOPIC),
    ("resources/read", "ReadResourceResult", {"uri": "item://a"}),
]
EVERYTHING = [(method, name, params) for method, (name, params) in HINTED.items()] + OTHER


@pytest.fixture(autouse=True)
def _offered() -> None:
    asked.offer(Desk())


@pytest.mark.requirement("META-05", "DISC-01", "DISC-02", "DISC-03", "GEN-01")
@pytest.mark.parametrize(("method", "name", "params"), EVERYTHING)
async def test_every_result_has_type_server_info_and_published_shape(
    method: str, name: str, params: dict[str, Any], server: Server
) -> None:
    result = await answered(server, method, params)
    assert result["resultType"] == "complete"
    assert result["_meta"][SERVER_INFO].items() >= {"name": "django-mcp", "version": "0.1.0"}.items()
    assert not published_schema.problems(V, name, result)
    assert "serverInfo" not in result


@pytest.mark.requirement("META-05", "DISC-03")
@pytest.mark.parametrize(("method", "name", "params"), EVERYTHING)
async def test_shortcut_answers_equal_ordinary_answers(
    method: str, name: str, params: dict[str, Any], server: Server
) -> None:
    exchange = modern(server, method, params)
    quick = in_one_piece(exchange, server)
    assert quick is None or quick == (await exchange.done()).body
    quickly = method.endswith("/list") or method == "server/discover" or params.get("name") == "at_once"
    assert (quick is not None) == (quickly and params.get("arguments") != {"text": 7})
    await exchange.done()


@pytest.mark.requirement("CACHE-01", "CACHE-03", "CACHE-07", "DISC-05")
@pytest.mark.parametrize("method", HINTED)
async def test_cacheable_results_have_ttl_and_scope(method: str, server: Server) -> None:
    exchange = await modern(server, method, HINTED[method][1]).done()
    result = exchange.json["result"]
    assert (result["ttlMs"], result["cacheScope"]) == (0, "private")
    assert exchange.headers[b"cache-control"] == b"no-cache, no-transform"


@pytest.mark.requirement("CACHE-01", "META-06")
@pytest.mark.parametrize(("method", "name", "params"), [row for row in OTHER if row[0] != "resources/read"])
async def test_other_results_and_older_revisions_have_no_cache_hints(
    method: str, name: str, params: dict[str, Any], server: Server
) -> None:
    assert not {"ttlMs", "cacheScope"} & (await answered(server, method, params)).keys()
    headers = await server.initialize()
    for asked_for in (params, {}):
        legacy = await server.send(message=request(method, asked_for), headers=headers).done()
        assert not {"ttlMs", "cacheScope", "resultType"} & legacy.json.get("result", {}).keys()


@pytest.mark.requirement("CACHE-04", "PAGE-04")
async def test_every_list_page_is_private(server: Server) -> None:
    """Lists depend on permissions, so they must not be shared between callers."""
    pages = [await answered(server, "tools/list")]
    while "nextCursor" in pages[-1]:
        pages.append(await answered(server, "tools/list", {"cursor": pages[-1]["nextCursor"]}))
    assert len(pages) == 3
    assert {(page["ttlMs"], page["cacheScope"]) for page in pages} == {(0, "private")}
    names = [tool["name"] for page in pages for tool in page["tools"]]
    assert len(names) == len(set(names)) == 9
    for page in pages:
        assert not published_schema.problems(V, "ListToolsResult", page)
        assert not any("execution" in tool for tool in page["tools"])


@pytest.mark.requirement("DISC-01", "DISC-02")
async def test_discovery_lists_served_features(streams: Streams) -> None:
    server = Server(streams, instructions="Take care.", server_title="A title")
    result = await answered(server, "server/discover")
    assert result["instructions"] == "Take care."
    declared = server_capabilities(
        V,
        tools=True,
        prompts=True,
        resources=True,
        subscribe=True,
        completions=True,
        logging=True,
        list_changed=True,
    )
    assert result["capabilities"].items() >= declared.items()
    assert "tasks" not in result["capabilities"]


@pytest.mark.requirement("META-02", "META-03")
async def test_client_info_does_not_change_answer(server: Server) -> None:
    answers = []
    for info in (None, {"name": "other"}, 7, {"name": ["x"]}):
        exchange = await modern(server, "tools/list", told=meta(**{CLIENT_INFO: info})).done()
        answers.append((exchange.status, exchange.body))
    assert len(set(answers)) == 1
    assert answers[0][0] == 200


@pytest.mark.requirement("META-08")
async def test_unknown_meta_is_not_echoed(server: Server) -> None:
    told = meta(**{"example.com/own": "mine", "traceparent": "nonsense"})
    result = await answered(server, "tools/call", {"name": "at_once"}, told=told)
    assert result["_meta"].keys() == {SERVER_INFO}


UNKNOWN = {"refusal": "unknown_tool"}
# The request, its status, its code, and the data of the error.
REFUSED: list[tuple[str, dict[str, Any], int, int, Any]] = [
    (
        "tools/call",
        {"name": "lost"},
        400,
        -32602,
        {"kind": "tool_not_found", "name": "lost", **UNKNOWN},
    ),
    ("tools/call", {"name": 7}, 400, -32602, None),
    ("tools/call", {"name": "at_once", "arguments": []}, 400, -32602, None),
    ("prompts/get", {"name": "lost"}, 400, -32602, {"kind": "prompt_not_found", "name": "lost"}),
    ("prompts/get", {"name": "review"}, 400, -32602, None),
    ("prompts/get", {"name": "review", "arguments": {"topic": 7}}, 400, -32602, None),
    ("resources/read", {"uri": "notes://lost"}, 400, -32602, {"uri": "notes://lost"}),
    ("resources/read", {"uri": "item://lost"}, 400, -32602, {"uri": "item://lost"}),
    ("tools/list", {"cursor": "garbage"}, 400, -32602, None),
    ("tools/list", {"cursor": 7}, 400, -32602, None),
    ("completion/complete", {}, 400, -32602, None),
    ("unknown/method", {}, 404, -32601, None),
]
ERRORS = {-32602: "InvalidParamsError", -32601: "MethodNotFoundError"}


@pytest.mark.requirement("T-MOD-07", "T-MOD-08", "T-MOD-09", "T-MOD-12", "RES-04", "PROMPT-03", "PAGE-02")
@pytest.mark.parametrize(("method", "params", "status", "code", "data"), REFUSED)
async def test_error_has_status_of_its_code_and_request_id(
    method: str, params: dict[str, Any], status: int, code: int, data: Any, server: Server
) -> None:
    headers: dict[str, str | None] = {"mcp-name": "7"} if params.get("name") == 7 else {}
    exchange = await modern(server, method, params, request_id="r", headers=headers).done()
    error = exchange.json["error"]
    assert (exchange.status, error["code"], exchange.json["id"]) == (status, code, "r")
    if data is not None:
        assert error["data"] == data
    assert not published_schema.problems(V, "JSONRPCErrorResponse", exchange.json)
    assert not published_schema.problems(V, ERRORS[code], error)


@pytest.mark.requirement("T-MOD-08", "T-MOD-12")
async def test_server_fault_has_its_status_and_request_id(server: Server) -> None:
    async def away(*_: Any) -> Any:
        raise StreamsUnavailable("10.0.0.1:6379 refused")

    server.process.background.accept = away  # type: ignore[method-assign]
    server.process.streams.windows.hit = away  # type: ignore[method-assign]
    full = Server(server.process.streams, max_running_calls_per_principal=0)
    exchange = await modern(full, "tools/call", {"name": "in_thread"}).done()
    assert (exchange.status, exchange.json["id"], exchange.json["error"]["code"]) == (429, 1, -32600)
    assert b"retry-after" in exchange.headers


@pytest.mark.requirement("GEN-04", "GEN-05")
async def test_independent_processes_give_same_answers(streams: Streams) -> None:
    one, other = Server(streams), Server(Streams.in_memory())
    capable = meta(**{CLIENT_CAPABILITIES: {"sampling": {}}})
    for method, _, params in EVERYTHING:
        if params.get("name") == "breaks":
            continue  # Its answer contains the incident number.
        first = await modern(one, method, params).done()
        await modern(other, method, params, told=capable).done()
        second = await modern(other, method, params).done()
        assert (first.status, first.body) == (second.status, second.body)
    cursor = (await answered(one, "tools/list"))["nextCursor"]
    assert (await answered(other, "tools/list", {"cursor": cursor}))["tools"]


@pytest.mark.requirement("GEN-04")
async def test_declared_capabilities_apply_to_one_request_only(server: Server) -> None:
    seen = []
    for declared in ({"sampling": {}}, {}, {"sampling": {}, "x" * 4000: {}}, {"roots": {}}):
        told = meta(**{CLIENT_CAPABILITIES: declared})
        result = await answered(server, "tools/call", {"name": "asks"}, told=told)
        seen.append(result["content"][0]["text"])
    assert seen == ['[true,"tests","2026-07-28"]', '[false,"tests","2026-07-28"]'] * 2


@pytest.mark.requirement("T-MOD-13", "RPC-04")
async def test_clients_may_use_same_request_id_concurrently(server: Server) -> None:
    desk = Desk()
    asked.offer(desk)
    waiting = [modern(server, "tools/call", {"name": "silent"}, request_id=1) for _ in range(50)]
    await desk.begun.wait()
    desk.go_on.set()
    for exchange in waiting:
        assert (await exchange.done()).json["result"]["content"][0]["text"] == "done"
    assert not server.process.calls.running


@pytest.mark.requirement("TOOL-05", "PROMPT-08")
async def test_lists_are_same_for_every_connection(server: Server) -> None:
    before = [await answered(server, method) for method in HINTED if method.endswith("list")]
    await answered(server, "tools/call", {"name": "at_once"})
    told = meta(**{CLIENT_CAPABILITIES: {"elicitation": {}}})
    after = [await answered(server, method, told=told) for method in HINTED if method.endswith("list")]
    assert before == after


@pytest.mark.requirement("CACHE-05", "CACHE-02")
async def test_resource_read_with_answers_is_not_cacheable(server: Server) -> None:
    async def greeting(ctx: Context) -> str:
        """Greets."""
        return f"Hello, {(await ctx.aelicit('Who?', str, key='who')).value}"

    held = Catalogue(
        revision=6, revisions=dict.fromkeys(KINDS, 6), resources=[resource_entry(greeting, "test://greeting")]
    )
    current_snapshot.replace(held)
    told = meta(**{CLIENT_CAPABILITIES: {"elicitation": {"form": {}}}})
    params: dict[str, Any] = {"uri": "test://greeting"}
    first = await answered(server, "resources/read", params, told=told)
    assert not {"ttlMs", "cacheScope"} & first.keys()
    answer = {"action": "accept", "content": {"value": "Ada"}}
    params |= {"requestState": first["requestState"], "inputResponses": {"who": answer}}
    result = await answered(server, "resources/read", params, told=told)
    assert result["contents"][0]["text"] == "Hello, Ada"
    assert (result["ttlMs"], result["cacheScope"]) == (0, "private")
