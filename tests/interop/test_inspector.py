"""The Inspector's command line lists, reads and calls, in both eras."""

from __future__ import annotations

import json
import os
import shlex
from typing import Any

import pytest

from tests.clients.stdio_child import COMMAND, ROOT
from tests.interop import npm, walk
from tests.servers.live import LiveServer

pytestmark = [pytest.mark.process, pytest.mark.xdist_group("interop")]
TOOL_ERROR = 5


def _inspect(
    live: LiveServer,
    *arguments: str,
    exit_status: int = 0,
    transport: str = "http",
    era: str = "legacy",
) -> dict[str, Any]:
    program = npm.packages("inspector") / ".bin" / "mcp-inspector"
    options = ["--transport", transport, "--protocol-era", era, "--format", "json", "--quiet"]
    # A server that it starts on a busy machine takes longer than its default timeout.
    options += ["--connect-timeout", "60000"]
    target = {"http": [live.url], "sse": [live.url.replace("/mcp", "/sse")]}
    # The Inspector passes few of its variables to the server that it starts.
    told = [f"{name}={value}" for name, value in live.environment.items() if os.environ.get(name) != value]
    started = shlex.join(["env", *told, *COMMAND])
    stdio = ["/bin/sh", "-c", f"cd {shlex.quote(str(ROOT))} && exec {started}"]
    done = npm.run(
        [str(program.resolve()), "--cli", *target.get(transport, stdio), *options, *arguments],
    )
    assert done.returncode == exit_status, (
        arguments,
        done.returncode,
        done.stdout[-500:],
        done.stderr[-2000:],
    )
    # Errors without a result are printed separately.
    found: dict[str, Any] = json.loads(done.stdout or done.stderr)
    result: dict[str, Any] = found.get("result", found)
    return result


def _called(live: LiveServer, tool: str, arguments: dict[str, Any], **how: Any) -> dict[str, Any]:
    named = ("--method", "tools/call", "--tool-name", tool)
    return _inspect(live, *named, "--tool-args-json", json.dumps(arguments), **how)


@pytest.mark.requirement("CONF-03", "DISC-01")
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_inspector_lists_reads_and_calls(live: LiveServer, era: str) -> None:
    tools = _inspect(live, "--method", "tools/list", era=era)["tools"]
    assert {tool["name"] for tool in tools} >= set(walk.TOOLS)
    prompts = _inspect(live, "--method", "prompts/list", era=era)["prompts"]
    assert {prompt["name"] for prompt in prompts} >= set(walk.PROMPTS)
    resources = _inspect(live, "--method", "resources/list", era=era)["resources"]
    assert "server://info" in {resource["uri"] for resource in resources}
    templates = _inspect(live, "--method", "resources/templates/list", era=era)["resourceTemplates"]
    assert "demo://greeting/{name}" in {template["uriTemplate"] for template in templates}
    asked = ("--method", "prompts/get", "--prompt-name", "code_review", "--prompt-args", "code=x = 1")
    assert "x = 1" in _inspect(live, *asked, era=era)["messages"][0]["content"]["text"]
    read = _inspect(live, "--method", "resources/read", "--uri", "demo://greeting/Ada", era=era)
    assert read["contents"][0]["text"] == "Hello, Ada!"
    assert _called(live, "add", {"a": 2, "b": 40}, era=era)["structuredContent"] == {"result": 42}
    counted = _called(live, "count", {"to": 3, "delay_seconds": 0.05}, era=era)
    assert counted["content"][0]["text"] == "counted to 3"


@pytest.mark.parametrize(("era", "status"), [("legacy", TOOL_ERROR), ("modern", 1)])
def test_inspector_call_with_elicitation_fails_cleanly(live: LiveServer, era: str, status: int) -> None:
    assert "elicitation" in str(_called(live, "ask_name", {}, era=era, exit_status=status))


def test_inspector_accepts_every_schema_in_strict_mode(live: LiveServer) -> None:
    _inspect(live, "--method", "tools/list", "--strict")


@pytest.mark.requirement("CONF-03", "SSE1-07")
@pytest.mark.parametrize(("transport", "era"), [("sse", "legacy"), ("stdio", "legacy"), ("stdio", "modern")])
def test_inspector_lists_and_calls_over_other_transports(live: LiveServer, transport: str, era: str) -> None:
    tools = _inspect(live, "--method", "tools/list", transport=transport, era=era)["tools"]
    assert {tool["name"] for tool in tools} >= set(walk.TOOLS)
    called = _called(live, "add", {"a": 2, "b": 40}, transport=transport, era=era)
    assert called["structuredContent"] == {"result": 42}
