"""The stdio server as a child process."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from tests.bounds import SLACK
from tests.clients.stdio_child import Child
from tests.integration.http.conftest import CAPABILITIES
from tests.samples.published_schema import problems
from tests.servers.live import LiveServer
from tests.servers.warm import Installation

LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
pytestmark = pytest.mark.process


@pytest.mark.requirement("STDIO-01", "STDIO-02", "GEN-01", "VER-02")
@pytest.mark.parametrize("version", LEGACY)
def test_stdio_serves_every_legacy_revision_without_redis_and_worker(
    alone: Installation, version: str
) -> None:
    with Child(alone) as child:
        result = child.initialize(version)
        assert result["protocolVersion"] == version
        assert not problems(version, "InitializeResult", result)
        tools = child.call(1, "tools/list")["result"]
        assert not problems(version, "ListToolsResult", tools)
        arguments = {"to": 2, "delay_seconds": 0.01}
        counted = child.call(
            "c", "tools/call", {"name": "count", "arguments": arguments, "_meta": {"progressToken": 7}}
        )
        assert counted["result"]["content"][0]["text"] == "counted to 2"
        assert [message["params"]["progress"] for message in child.received] == [1, 2]
        assert child.end() == 0
    assert not [line for line in child.errors if "Traceback" in line]


@pytest.mark.requirement("DLG-000-06")
def test_content_length_framing_is_answered_in_kind(alone: Installation) -> None:
    with Child(alone, counted=True) as child:
        child.initialize("2024-11-05")
        assert child.call("ü", "ping") == {"jsonrpc": "2.0", "id": "ü", "result": {}}


@pytest.mark.requirement("STDIO-11", "CAN-01", "CAN-02")
def test_slow_call_blocks_nothing_and_cancelled_call_is_not_answered(alone: Installation) -> None:
    with Child(alone) as child:
        child.initialize()
        child.request(1, "tools/call", {"name": "count", "arguments": {"to": 100, "delay_seconds": 1}})
        assert child.call(2, "ping")["result"] == {}
        child.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
        assert child.call(3, "ping")["result"] == {}
        began = time.monotonic()
        assert child.end() == 0
        assert time.monotonic() - began < 5 + SLACK
        assert [message.get("id") for message in child.received] == []
        assert child.message() is None


@pytest.mark.requirement("DLG-004-01", "DLG-004-02")
def test_legacy_cancel_is_answered(alone: Installation) -> None:
    with Child(alone) as child:
        child.initialize()
        child.request(1, "tools/call", {"name": "count", "arguments": {"to": 100, "delay_seconds": 1}})
        child.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 1}})
        assert child.answer_to(1)["error"]["code"] == -32800


@pytest.mark.requirement("STDIO-12", "DLG-004-11", "RPC-07")
@pytest.mark.parametrize(("version", "has_id"), [("2025-06-18", True), ("2025-11-25", False)])
def test_malformed_line_is_error_and_reading_continues(
    alone: Installation, version: str, has_id: bool
) -> None:
    with Child(alone) as child:
        child.initialize(version)
        for line, code in ((b"{garbage", -32700), (b"[]", -32600), (b"x" * 5_000_000, -32600)):
            child.send(line)
            error = child.message()
            assert error["error"]["code"] == code
            assert ("id" in error) == has_id
        child.send(b"")
        assert child.call(1, "ping")["result"] == {}


@pytest.mark.requirement("STDIO-03")
@pytest.mark.parametrize(
    ("version", "served"), [("2024-11-05", True), ("2025-03-26", True), ("2025-06-18", False)]
)
def test_batch_line_is_answered_by_one_line(alone: Installation, version: str, served: bool) -> None:
    with Child(alone) as child:
        child.initialize(version)
        child.send([{"jsonrpc": "2.0", "id": number, "method": "ping"} for number in (1, 2)])
        answer = child.message()
        assert isinstance(answer, list) == served
        assert served or answer["error"]["code"] == -32600


@pytest.mark.requirement("DLG-004-04", "DISC-06")
def test_only_ping_and_probe_are_served_before_initialize(alone: Installation) -> None:
    with Child(alone) as child:
        assert child.call(1, "ping")["result"] == {}
        assert child.call(2, "tools/list")["error"]["code"] == -32600
        assert child.call(3, "server/discover")["error"]["code"] < 0
        child.initialize()
        assert child.call(4, "server/discover")["error"]["code"] == -32601
        again = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"},
        }
        assert child.call(5, "initialize", again)["error"]["code"] == -32600


@pytest.mark.requirement("STDIO-04", "DLG-000-02")
@pytest.mark.parametrize("way", ["end of file", "SIGTERM", "exit"])
def test_process_exits_quickly_during_call(alone: Installation, way: str) -> None:
    with Child(alone) as child:
        child.initialize()
        child.request(1, "tools/call", {"name": "count", "arguments": {"to": 1000, "delay_seconds": 1}})
        child.request(2, "tools/call", {"name": "burn", "arguments": {"seconds": 60}})
        assert child.call(3, "ping")["result"] == {}
        if way == "SIGTERM":
            child.process.terminate()
        elif way == "exit":
            child.send({"jsonrpc": "2.0", "method": "exit"})
        else:
            assert child.process.stdin is not None
            child.process.stdin.close()
        assert child.process.wait(timeout=5) == 0


@pytest.mark.requirement("ELI-01")
def test_elicitation_is_asked_and_answered_on_pipes(alone: Installation) -> None:
    with Child(alone) as child:
        child.initialize("2025-06-18", CAPABILITIES)
        child.request(1, "tools/call", {"name": "ask_name", "arguments": {}})
        question = child.message()
        assert question["method"] == "elicitation/create"
        answer = {"action": "accept", "content": {"name": "Ada"}}
        child.send({"jsonrpc": "2.0", "id": question["id"], "result": answer})
        assert child.answer_to(1)["result"]["content"][0]["text"] == "Hello, Ada!"


def test_background_call_runs_in_worker_of_running_installation(live: LiveServer) -> None:
    with Child(live.installation) as child:
        child.initialize()
        arguments = {"to": 3, "delay_seconds": 0.05}
        counted = child.call(
            1, "tools/call", {"name": "count", "arguments": arguments, "_meta": {"progressToken": "p"}}
        )
        assert counted["result"]["content"][0]["text"] == "counted to 3"
        assert child.received[-1]["params"]["progress"] == 3
        rows = "from mcp_app.models import Call; print(Call.objects.filter(tool='count').count())"
        assert int(live.shell(rows).split()[-1]) >= 1
    # Enqueued directly, not by the sweep for lost jobs.
    assert not [line for line in child.errors if "waits for the broker" in line]


@pytest.mark.requirement("TOOL-23")
def test_change_of_another_process_is_announced_and_operator_ends_session(
    live: LiveServer,
) -> None:
    # Sessions of earlier tests may not have been stored as ended yet.
    begun = datetime.now(UTC).isoformat()
    with Child(live.installation) as child:
        child.initialize()
        assert child.call(1, "ping")["result"] == {}
        switch = (
            "from mcp_app.catalogue.changes.services import set_enabled; from mcp_app.models import Tool;"
            "set_enabled(entries=[Tool.objects.get(name='add')], enabled={}, actor=None)"
        )
        live.shell(switch.format(False))
        assert child.message()["method"] == "notifications/tools/list_changed"
        live.shell(switch.format(True))
        assert child.message()["method"] == "notifications/tools/list_changed"
        live.shell(
            "import time; from mcp_app.models import Session\n"
            "from mcp_app.sessions.services import end_session_now\n"
            f"own = Session.objects.filter(address='stdio', created_at__gte='{begun}')\n"
            "while not (rows := own.all()): time.sleep(0.1)\n"
            "[end_session_now(session_id=row.pk) for row in rows]"
        )
        assert child.message() is None
        assert child.process.wait(timeout=10) == 0, child.errors


@pytest.mark.requirement("AUTH-16")
def test_client_identity_comes_from_command_or_environment(live: LiveServer) -> None:
    strict = {**live.environment, "MCP_AUTH": "required"}
    made = live.shell(
        "from django.contrib.auth import get_user_model; from mcp_app.auth.api_keys import issue_api_key;"
        "user = get_user_model().objects.create_user('stdio-user');"
        "print(issue_api_key(user=user, name='stdio')[1])"
    )
    key = made.split()[-1]
    for environment, arguments, words in (
        (strict, (), "MCP_API_KEY"),
        ({**strict, "MCP_API_KEY": "mcp_wrong"}, (), "unknown"),
        (strict, ("--user", "nobody-there"), "no active user"),
    ):
        installation = live.installations.of(environment)
        status, output, errors = installation.run("manage.py", "mcp_stdio", *arguments)
        assert status == 1
        assert words in errors
        assert output == ""
    for environment, arguments in (({**strict, "MCP_API_KEY": key}, ()), (strict, ("--user", "stdio-user"))):
        with Child(live.installations.of(environment), *arguments) as child:
            child.initialize()
            assert child.call(1, "tools/list")["result"]["tools"]
    narrow = live.shell(
        "from django.contrib.auth import get_user_model; from mcp_app.auth.api_keys import issue_api_key;"
        "user = get_user_model().objects.get(username='stdio-user');"
        "print(issue_api_key(user=user, name='narrow', scopes=['mcp'])[1])"
    ).split()[-1]
    with Child(live.installations.of({**strict, "MCP_API_KEY": narrow})) as child:
        child.initialize()
        assert child.call(1, "tools/list")["result"]["tools"]
        refused = child.call(2, "tools/call", {"name": "echo", "arguments": {"text": "hi"}})
        assert "The API key needs the scope mcp:tools." in refused["error"]["message"]
