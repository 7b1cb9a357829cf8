"""Deviations of clients written for older descriptions of the protocol."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.clients.raw_http import Mcp
from tests.integration.features.conftest import Connect
from tests.integration.features.conversation import VERSIONS, Client
from tests.servers.live import LiveServer, eventually


def wait_call(client: Client, mark: str) -> dict[str, Any]:
    return {"name": "wait", "arguments": {"seconds": 30, "mark": mark}}


def test_server_capabilities_sent_by_a_client_are_ignored(connect: Connect) -> None:
    client = connect(capabilities={"tools": {}, "resources": True, "prompts": [], "experimental": {"x": {}}})
    assert client.use("plain_text").text == "plain"


@pytest.mark.parametrize("version", [*VERSIONS, "2024-11-05", "1.0", "2099-01-01"])
def test_initialize_negotiates_a_supported_version(version: str, server: LiveServer) -> None:
    client = Mcp.at(server.ports[0])
    try:
        assert client.initialize(version)["protocolVersion"] == (
            version if version in (*VERSIONS, "2024-11-05") else VERSIONS[-1]
        )
    finally:
        client.close()


@pytest.mark.parametrize("method", ["ping", "tools/list", "prompts/list", "resources/list"])
def test_request_without_params_is_served(method: str, client: Client) -> None:
    assert client.converse(method).result == client.converse(method, {}).result


def test_request_without_id_gets_no_response(client: Client) -> None:
    answer = client.notify("tools/call", {"name": "plain_text", "arguments": {}})
    assert (answer.status, answer.body) == (202, b"")


def test_cancel_request_notification_cancels_the_call(client: Client) -> None:
    with client.open_call("tools/call", wait_call(client, f"dialect-{client.version}")) as stream:
        client.judge(stream.message())
        assert client.notify("$/cancelRequest", {"id": client.next_id}).status == 202
        (answer,) = stream.messages()
    assert client.judge(answer)["error"]["code"] == -32800


@pytest.mark.parametrize(
    ("method", "params", "code", "kind"),
    [
        ("tools/call", {"name": "nobody"}, -32602, "tool_not_found"),
        ("prompts/get", {"name": "nobody"}, -32602, "prompt_not_found"),
        ("resources/read", {"uri": "doc://nobody"}, -32002, None),
        ("customFeature/operation", {}, -32601, None),
        ("initialized", {}, -32601, None),
        ("notifications/initialized", {}, -32601, None),
    ],
)
def test_errors_have_published_codes_and_kinds(
    method: str, params: dict[str, Any], code: int, kind: str | None, client: Client
) -> None:
    error = client.converse(method, params).error
    assert error["code"] == code
    assert error.get("data", {}).get("kind") == kind


def test_routing_headers_are_accepted_in_a_session(client: Client) -> None:
    message = client.request_message("tools/call", {"name": "plain_text", "arguments": {}})
    answer = client.post(message, **{"Mcp-Method": "tools/call", "Mcp-Name": "plain_text"})
    assert answer.status == 200
    assert answer.json()["result"]["content"][0]["text"] == "plain"


def test_server_requests_never_use_the_standalone_stream(connect: Connect) -> None:
    client = connect(
        capabilities={"sampling": {}, "roots": {}, "elicitation": {}},
        replies={"roots/list": {"roots": []}, "elicitation/create": {"action": "decline"}},
    )
    with client.listen() as standalone:
        assert client.use("roots").before
        assert client.use("ask_type", kind="bool").before
        assert standalone.quiet(0.2)


def test_progress_and_log_notifications_have_published_names(client: Client) -> None:
    params = {"name": "report", "arguments": {"values": [1]}, "_meta": {"progressToken": 1}}
    methods = {found["method"] for found in client.converse("tools/call", params).before}
    methods |= {found["method"] for found in client.use("log_data").before}
    assert methods == {"notifications/progress", "notifications/message"}


def test_request_without_session_is_a_json_rpc_error(server: LiveServer) -> None:
    client = Mcp.at(server.ports[0])
    try:
        answer = client.post(client.request_message("tools/list"))
    finally:
        client.close()
    assert answer.status == 400
    assert json.loads(answer.body)["error"]["code"] == -32600


def test_cancel_request_notification_stops_the_tool(connect: Connect) -> None:
    client = connect()
    with client.open_call("tools/call", wait_call(client, "old name")) as stream:
        stream.message()
        client.notify("$/cancelRequest", {"id": client.next_id})
        stream.messages()
    eventually(lambda: "old name" in json.loads(client.use("stopped").text)["marks"], 2)
