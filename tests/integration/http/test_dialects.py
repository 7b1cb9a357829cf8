"""Deviations of early HTTP clients: accepted, or refused as the published text requires."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.clients.raw_http import Mcp
from tests.clients.raw_sse import HttpSseClient
from tests.integration.http.conftest import CAPABILITIES, OpenSession
from tests.servers.live import LiveServer

LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
CLIENT = {"name": "early", "version": "0"}


@pytest.fixture
def early(live: LiveServer) -> Iterator[Mcp]:
    """Return a client without a session."""
    made = live.mcp()
    yield made
    if made.session:
        made.delete()
    made.close()


@pytest.fixture
def event_stream(live: LiveServer) -> Iterator[HttpSseClient]:
    """Open an HTTP+SSE stream at the first process."""
    with HttpSseClient(live.ports) as opened:
        opened.open()
        yield opened


def begin(client: Mcp, **params: Any) -> dict[str, Any]:
    """Send ``initialize`` with exactly these params and return the result."""
    answer = client.post(client.request_message("initialize", params))
    assert answer.status == 200, answer
    client.session = answer.headers["mcp-session-id"]
    result: dict[str, Any] = answer.json()["result"]
    client.version = result["protocolVersion"]
    return result


@pytest.mark.requirement("DLG-000-01")
@pytest.mark.parametrize("version", LEGACY)
def test_initialized_without_prefix_confirms_a_session(open_session: OpenSession, version: str) -> None:
    client = open_session(version, confirm=False)
    # Server requests wait for a confirmed session (LIFE-04).
    with client.open_call("tools/call", {"name": "list_roots", "arguments": {}}) as stream:
        if version == "2025-11-25":
            stream.next()  # The priming event with an id to resume from.
        assert stream.quiet(0.3)
        answer = client.notify("initialized")
        assert (answer.status, answer.body) == (202, b"")
        assert stream.message()["method"] == "roots/list"
    assert client.call("initialized")["error"]["code"] == -32601


@pytest.mark.requirement("DLG-000-02")
def test_exit_notification_ends_the_session(client: Mcp) -> None:
    assert client.notify("exit").status == 202
    assert client.post(client.request_message("ping")).status == 404


@pytest.mark.requirement("DLG-000-02")
def test_exit_notification_ends_the_http_sse_stream(event_stream: HttpSseClient) -> None:
    event_stream.initialize()
    assert event_stream.post({"jsonrpc": "2.0", "method": "exit"}, process=1).status == 202
    assert event_stream.stream is not None
    assert event_stream.stream.next() is None


@pytest.mark.requirement("DLG-000-03", "DLG-000-05")
def test_initialize_without_version_negotiates_2025_03_26(early: Mcp) -> None:
    assert begin(early, capabilities={}, clientInfo=CLIENT)["protocolVersion"] == "2025-03-26"
    # Only that revision accepts batches.
    assert early.post([early.request_message("ping")]).status == 200


@pytest.mark.requirement("DLG-000-03", "DLG-000-05")
def test_http_sse_initialize_without_version_negotiates_2024_11_05(
    event_stream: HttpSseClient,
) -> None:
    answer = event_stream.call("initialize", {"capabilities": {}, "clientInfo": CLIENT})
    assert answer["result"]["protocolVersion"] == "2024-11-05"


@pytest.mark.requirement("DLG-000-04")
def test_server_capabilities_from_a_client_are_ignored(early: Mcp) -> None:
    theirs = {"tools": {"listChanged": True}, "resources": {}, "prompts": {}, "experimental": {"x": {}}}
    assert begin(early, protocolVersion="2025-06-18", capabilities=theirs, clientInfo=CLIENT)["capabilities"]
    early.notify("notifications/initialized")
    assert early.tool("list_roots")["result"]["isError"] is True


@pytest.mark.requirement("DLG-000-08")
def test_log_notifications_have_the_published_form(client: Mcp) -> None:
    assert client.notify("notifications/logging/message", {"level": "info", "message": "x"}).status == 202
    client.tool("steps", count=2)
    assert {message["method"] for message in client.received} == {"notifications/message"}
    assert all({"level", "data"} <= message["params"].keys() for message in client.received)


@pytest.mark.requirement("DLG-000-09")
def test_early_progress_form_is_accepted_and_published_form_sent(client: Mcp) -> None:
    assert client.notify("notifications/progress", {"token": "t", "value": 0.5}).status == 202
    client.call("tools/call", {"name": "test_tool_with_progress", "_meta": {"progressToken": "t"}})
    assert client.received
    assert all(
        message["params"]["progressToken"] == "t" and "value" not in message["params"]
        for message in client.received
    )


UNKNOWN = {"refusal": "unknown_tool"}


@pytest.mark.requirement("DLG-000-10", "DLG-004-03")
@pytest.mark.parametrize(
    ("method", "params", "code", "data"),
    [
        (
            "tools/call",
            {"name": "no-tool"},
            -32602,
            {"kind": "tool_not_found", "name": "no-tool", **UNKNOWN},
        ),
        ("prompts/get", {"name": "no-prompt"}, -32602, {"kind": "prompt_not_found", "name": "no-prompt"}),
        ("resources/read", {"uri": "no://thing"}, -32002, {"uri": "no://thing"}),
    ],
)
def test_not_found_errors_have_published_code_and_kind(
    open_session: OpenSession, method: str, params: dict[str, Any], code: int, data: dict[str, str]
) -> None:
    for version in LEGACY:
        error = open_session(version).call(method, params)["error"]
        assert error["code"] == code
        assert error["data"].items() >= data.items()


@pytest.mark.requirement("DLG-000-10")
def test_failed_tool_returns_is_error(client: Mcp) -> None:
    assert client.tool("test_error_handling")["result"]["isError"] is True


@pytest.mark.requirement("DLG-001-01")
def test_request_without_id_is_a_notification(client: Mcp) -> None:
    answer = client.post({"jsonrpc": "2.0", "method": "resources/list", "params": {"cursor": "x"}})
    assert (answer.status, answer.body) == (202, b"")


@pytest.mark.requirement("DLG-001-02")
def test_2024_11_05_completes_without_the_capability(
    open_session: OpenSession,
) -> None:
    client = open_session("2024-11-05")
    assert "completions" not in client.server["capabilities"]
    reference = {"type": "ref/prompt", "name": "test_prompt_with_arguments"}
    argument = {"name": "arg1", "value": "test"}
    found = client.call("completion/complete", {"ref": reference, "argument": argument})
    assert found["result"]["completion"]["values"] == ["testValue1", "testValue2"]
    with client.open_call("tools/call", {"name": "ask_model", "arguments": {}}) as stream:
        question = stream.message()
        assert client.respond(question["id"], error={"code": -1, "message": "User rejected"}).status == 202
        assert stream.message()["result"]["isError"] is True


@pytest.mark.requirement("HDR-12", "DLG-002-01", "DLG-002-02", "DLG-002-03", "DLG-002-04")
@pytest.mark.parametrize(
    ("method", "params", "headers"),
    [
        ("tools/call", {"name": "routed"}, {"Mcp_Method": "tools/list"}),
        ("tools/call", {"name": "routed"}, {"Mcp_Method": "TOOLS/CALL"}),
        ("tools/call", {"name": "routed"}, {"Mcp_Name": "other"}),
        ("tools/call", {"name": "routed"}, {"Mcp_Method": "tools/call", "Mcp_Name": "=?base64?!?="}),
        ("prompts/get", {"name": "test_simple_prompt"}, {"Mcp_Name": "other"}),
        ("resources/read", {"uri": "test://static-text"}, {"Mcp_Name": "test://static-binary"}),
        ("ping", {}, {"Mcp_Method": "tools/list"}),
    ],
)
def test_mismatched_routing_headers_are_refused_in_a_session(
    client: Mcp, method: str, params: dict[str, Any], headers: dict[str, str]
) -> None:
    message = client.request_message(method, params)
    answer = client.post(message, **headers)
    assert answer.status == 400
    assert answer.json()["error"]["code"] == -32001
    assert answer.json()["id"] == message["id"]
    told = client.post({"jsonrpc": "2.0", "method": "notifications/x"}, Mcp_Method="ping")
    assert (told.status, told.json()["error"]["code"], "id" in told.json()) == (400, -32001, False)


ARGUMENTS = {"region": "Zürich", "shard": 42, "dry": True}


@pytest.mark.requirement("HDR-12", "DLG-002-01", "DLG-002-03", "DLG-002-07", "DLG-002-08")
@pytest.mark.parametrize(
    ("headers", "served"),
    [
        ({}, True),
        ({"Mcp_Name": "routed"}, True),
        ({"Mcp_Name": "=?base64?cm91dGVk?="}, True),
        ({"mcp-param-region": "=?base64?WsO8cmljaA==?="}, True),
        ({"Mcp-Param-Region": "Zurich"}, False),
        ({"Mcp-Param-Region": "=?base64?WsO8cmljaA?="}, False),
        ({"Mcp-Param-Shard": "42"}, True),
        ({"Mcp-Param-Shard": "42.0"}, True),
        ({"Mcp-Param-Shard": "43"}, False),
        ({"Mcp-Param-Dry-Run": "true"}, True),
        ({"Mcp-Param-Dry-Run": "True"}, False),
        ({"Mcp-Param-Unknown": "x"}, True),
    ],
)
def test_present_param_headers_must_match_the_arguments(
    client: Mcp, headers: dict[str, str], served: bool
) -> None:
    message = client.request_message("tools/call", {"name": "routed", "arguments": ARGUMENTS})
    answer = client.post(message, Mcp_Method="tools/call", **headers)
    assert answer.status == (200 if served else 400), answer
    assert served or answer.json()["error"]["code"] == -32001


@pytest.mark.requirement("DLG-002-03")
def test_initialize_with_wrong_routing_header_is_refused(early: Mcp) -> None:
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": CLIENT}
    assert early.post(early.request_message("initialize", params), Mcp_Method="ping").status == 400
    answer = early.post(early.request_message("initialize", params), Mcp_Method="initialize")
    assert answer.status == 200
    early.session, early.version = answer.headers["mcp-session-id"], "2025-06-18"


@pytest.mark.requirement("DLG-002-05")
def test_server_requests_use_the_stream_of_their_call(client: Mcp) -> None:
    with client.get_stream() as standalone:
        priming = standalone.next()
        assert priming is not None
        for tool, method in (("welcome", "elicitation/create"), ("list_roots", "roots/list")):
            with client.open_call("tools/call", {"name": tool, "arguments": {}}) as stream:
                question = stream.message()
                assert question["method"] == method
                client.respond(question["id"], error={"code": -1, "message": "no"})
                assert stream.message()["result"]
        client.notify("exit")
        said = standalone.messages()
    assert not [message for message in said if "id" in message]


@pytest.mark.requirement("DLG-002-06")
@pytest.mark.parametrize("path", ["/mcp", "/sse", "/messages/"])
def test_denied_method_lists_allowed_methods(live: LiveServer, path: str) -> None:
    with live.mcp().client as raw:
        answer = raw.request("PUT", path, {})
    assert answer.status == 405
    assert set(answer.headers["allow"].split(", ")) <= {"GET", "POST", "DELETE", "OPTIONS"}


@pytest.mark.requirement("DLG-002-09")
@pytest.mark.parametrize("name", ["Mcp-Session-Id", "MCP-Session-Id", "mcp-session-id"])
def test_session_header_is_case_insensitive(client: Mcp, name: str) -> None:
    session, client.session = client.session, None
    assert client.post(client.request_message("ping")).status == 400
    assert client.post(client.request_message("ping"), **{name: str(session)}).status == 200


@pytest.mark.requirement("DLG-003-01", "DLG-003-02")
def test_2025_03_26_session_follows_the_specification(open_session: OpenSession) -> None:
    client = open_session("2025-03-26")
    batch = [client.request_message("ping"), client.request_message("ping")]
    answers = client.post(batch).json()
    assert sorted(answer["id"] for answer in answers) == [message["id"] for message in batch]
    assert client.notify("notifications/initialized").status == 202
    assert client.post(client.request_message("ping"), Accept="text/html").status == 406
    session, client.session = client.session, None
    assert client.post(client.request_message("ping")).status == 400
    client.session = session
    assert client.delete().status == 200
    assert client.post(client.request_message("ping")).status == 404


@pytest.mark.requirement("DLG-004-05")
def test_unsupported_version_negotiates_the_newest_legacy_revision(early: Mcp) -> None:
    answered = begin(early, protocolVersion="2024-10-07", capabilities={}, clientInfo=CLIENT)
    assert answered["protocolVersion"] == "2025-11-25"


@pytest.mark.requirement("DLG-004-06")
@pytest.mark.parametrize(
    "method", ["roots/list", "sampling/createMessage", "elicitation/create", "customFeature/operation"]
)
def test_undeclared_method_returns_method_not_found(client: Mcp, method: str) -> None:
    assert client.call(method)["error"]["code"] == -32601


@pytest.mark.requirement("DLG-004-07")
@pytest.mark.parametrize("reason", ["end_turn", "endTurn", "out of words"])
def test_any_sampling_stop_reason_is_accepted(client: Mcp, reason: str) -> None:
    with client.open_call("tools/call", {"name": "ask_model", "arguments": {}}) as stream:
        content = {"type": "text", "text": "sampled"}
        answer = {"role": "assistant", "content": content, "model": "m", "stopReason": reason}
        assert client.respond(stream.message()["id"], answer).status == 202
        assert stream.message()["result"]["content"][0]["text"] == "sampled"


@pytest.mark.requirement("DLG-004-08")
def test_roots_do_not_restrict_resource_access(client: Mcp) -> None:
    with client.open_call("tools/call", {"name": "list_roots", "arguments": {}}) as stream:
        assert client.respond(stream.message()["id"], {"roots": [{"uri": "file:///only/here"}]}).status == 202
        assert stream.message()["result"]["content"][0]["text"] == "file:///only/here"
    assert client.call("resources/read", {"uri": "test://static-text"})["result"]["contents"]


@pytest.mark.requirement("DLG-004-09")
@pytest.mark.parametrize("version", LEGACY)
def test_schemas_are_2020_12_in_every_revision(open_session: OpenSession, version: str) -> None:
    client = open_session(version, capabilities=CAPABILITIES)
    wrong = client.tool("json_schema_2020_12_tool", contactMethod="phone", email="a@example.com")
    refused = wrong.get("error") or wrong["result"].get("isError")
    assert refused, wrong
    right = client.tool("json_schema_2020_12_tool", contactMethod="phone", phone="1")
    assert not right["result"].get("isError")
