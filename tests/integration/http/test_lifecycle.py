"""Initialization: messages before, during and after it, and declared capabilities."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_app.protocol.capabilities import EXPERIMENTAL, EXTENSIONS
from mcp_app.protocol.versions import V2025_11_25
from tests.clients.raw_http import Answer, Mcp
from tests.integration.http.conftest import CAPABILITIES, OpenSession
from tests.samples.published_schema import problems
from tests.servers.live import LiveServer

LEGACY = ("2025-03-26", "2025-06-18", "2025-11-25")
PARAMS: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "x", "version": "1"},
}


def begin(client: Mcp, params: Any, **headers: str) -> Answer:
    client.session = client.version = None
    return client.post(client.request_message("initialize", params), **headers)


@pytest.mark.requirement("LIFE-01")
@pytest.mark.parametrize("missing", ["capabilities", "clientInfo"])
def test_initialize_requires_capabilities_and_client_info(client: Mcp, missing: str) -> None:
    answer = begin(client, {name: value for name, value in PARAMS.items() if name != missing})
    assert answer.json()["error"]["code"] == -32602
    assert missing in answer.json()["error"]["message"]
    assert "mcp-session-id" not in answer.headers


@pytest.mark.requirement("LIFE-01")
@pytest.mark.parametrize(
    "wrong",
    [
        {"protocolVersion": 20251125},
        {"capabilities": []},
        {"clientInfo": "x"},
        {"clientInfo": {"name": "x"}},
        {"clientInfo": {"name": 5, "version": "1"}},
    ],
    ids=str,
)
def test_initialize_params_of_the_wrong_type_are_refused(client: Mcp, wrong: dict[str, Any]) -> None:
    answer = begin(client, {**PARAMS, **wrong})
    assert answer.json()["error"]["code"] == -32602
    assert "mcp-session-id" not in answer.headers


@pytest.mark.requirement("LIFE-01", "GEN-02")
def test_unknown_initialize_params_are_accepted(client: Mcp) -> None:
    info = {
        "name": "x", "version": "1", "title": "X", "description": "y" * 10_000, "icons": [{"src": "https://a/b"}],
        "websiteUrl": "https://a", "extra": [1],
    }  # fmt: skip
    capabilities = {
        "roots": {"listChanged": True},
        "tasks": {"list": {}},
        "experimental": {"a": {}},
        "new": 5,
    }
    answer = begin(client, {**PARAMS, "clientInfo": info, "capabilities": capabilities, "x-foo": 1})
    assert answer.status == 200
    assert answer.json()["result"]["protocolVersion"] == "2025-11-25"


@pytest.mark.requirement("LIFE-02", "GEN-01", "VER-02")
@pytest.mark.parametrize("version", LEGACY)
def test_initialize_result_describes_the_server(open_session: OpenSession, version: str) -> None:
    result = open_session(version).server
    assert result["protocolVersion"] == version
    assert result["serverInfo"]["name"]
    assert result["serverInfo"]["version"]
    assert ("websiteUrl" in result["serverInfo"]) == (version >= "2025-11-25")
    assert problems(version, "InitializeResult", result) == []


@pytest.mark.requirement("LIFE-03", "T-POST-06")
def test_repeated_initialized_notification_is_accepted(open_session: OpenSession) -> None:
    client = open_session(confirm=False)
    for _ in range(3):
        answer = client.notify("notifications/initialized")
        assert (answer.status, answer.body) == (202, b"")


@pytest.mark.requirement("LIFE-05")
@pytest.mark.parametrize("version", LEGACY)
def test_requests_before_initialized_are_served(open_session: OpenSession, version: str) -> None:
    client = open_session(version, confirm=False)
    assert client.call("ping")["result"] == {}
    assert client.call("tools/list")["result"]["tools"]
    assert client.tool("test_simple_text")["result"]["content"]


@pytest.mark.requirement("LIFE-06")
def test_initialize_cannot_be_cancelled(client: Mcp) -> None:
    client.next_id = 500
    result = client.initialize(confirm=False)
    assert client.notify("notifications/cancelled", {"requestId": 501}).status == 202
    assert result["protocolVersion"]
    assert client.call("ping")["result"] == {}


@pytest.mark.requirement("LIFE-07")
def test_each_initialize_opens_a_new_session(client: Mcp) -> None:
    first = client.session
    client.initialize()
    second = client.session
    assert first != second
    for session in (first, second):
        client.session = session
        assert client.call("ping")["result"] == {}


@pytest.mark.requirement("LIFE-08")
def test_instructions_come_from_the_setting(
    live: LiveServer, client: Mcp, open_strict: OpenSession, key: str
) -> None:
    assert client.server["instructions"] == "Be gentle."
    assert "instructions" not in open_strict(token=key).server


METHODS: dict[str, tuple[tuple[str, dict[str, Any]], ...]] = {
    "tools": (("tools/list", {}), ("tools/call", {"name": "test_simple_text"})),
    "prompts": (("prompts/list", {}), ("prompts/get", {"name": "test_simple_prompt"})),
    "resources": (
        ("resources/list", {}),
        ("resources/templates/list", {}),
        ("resources/read", {"uri": "test://static-text"}),
        ("resources/subscribe", {"uri": "test://static-text"}),
        ("resources/unsubscribe", {"uri": "test://static-text"}),
    ),
    "logging": (("logging/setLevel", {"level": "info"}),),
    "completions": (
        (
            "completion/complete",
            {
                "ref": {"type": "ref/prompt", "name": "test_prompt_with_arguments"},
                "argument": {"name": "arg1", "value": ""},
            },
        ),
    ),
}


@pytest.mark.requirement("CAP-01", "VER-10")
@pytest.mark.parametrize("version", LEGACY)
def test_only_declared_capabilities_are_served(open_session: OpenSession, version: str) -> None:
    client = open_session(version, capabilities=CAPABILITIES)
    declared = client.server["capabilities"]
    core_tasks = {"tasks"} if version == V2025_11_25 else set()
    assert set(declared) == {*METHODS, EXPERIMENTAL, EXTENSIONS, *core_tasks}
    for calls in METHODS.values():
        for method, params in calls:
            assert "result" in client.call(method, params), method
    unknown = ["tasks/list", "roots/list", "sampling/createMessage", "server/discover"]
    for method in unknown if core_tasks else [*unknown, "tasks/get"]:
        assert client.call(method)["error"]["code"] == -32601


@pytest.mark.requirement("CAP-06")
def test_list_changed_and_subscribe_are_declared(client: Mcp) -> None:
    declared = client.server["capabilities"]
    assert all(declared[kind]["listChanged"] for kind in ("tools", "prompts", "resources"))
    assert declared["resources"]["subscribe"]
