"""The Inspector's command line lists and calls everything in the demo."""

from __future__ import annotations

import json
import os
import shlex
from typing import Any

import pytest

from tests.interop import npm, walk
from tests.live import LiveServer
from tests.stdio_child import COMMAND, ROOT

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
    target = {"http": [live.url], "sse": [live.url.replace("/mcp", "/sse")]}
    # The Inspector hands few of its own variables on to the server that it starts.
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
    found: dict[str, Any] = json.loads(done.stdout)
    result: dict[str, Any] = found.get("result", found)
    return result


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_inspector_lists_tools_prompts_resources_and_templates(live: LiveServer, era: str) -> None:
    tools = _inspect(live, "--method", "tools/list", era=era)["tools"]
    assert {tool["name"] for tool in tools} >= set(walk.TOOLS)
    prompts = _inspect(live, "--method", "prompts/list", era=era)["prompts"]
    assert {prompt["name"] for prompt in prompts} >= set(walk.PROMPTS)
    assert _inspect(live, "--method", "resources/list", era=era)["resources"]
    assert _inspect(live, "--method", "resources/templates/list", era=era)["resourceTemplates"]


@pytest.mark.requirement("CONF-03", "DISC-01")
def test_the_inspector_calls_a_tool_by_the_newer_revision(live: LiveServer) -> None:
    arguments = ("--method", "tools/call", "--tool-name", "add", "--tool-args-json", '{"a": 2, "b": 40}')
    assert _inspect(live, *arguments, era="modern")["structuredContent"] == {"result": 42}


def test_the_inspector_finds_no_schema_that_other_hosts_could_not_use(live: LiveServer) -> None:
    _inspect(live, "--method", "tools/list", "--strict")


@pytest.mark.requirement("CONF-03", "SSE1-07")
@pytest.mark.parametrize("transport", ["sse", "stdio"])
def test_the_inspector_lists_and_calls_over_the_other_transports(live: LiveServer, transport: str) -> None:
    tools = _inspect(live, "--method", "tools/list", transport=transport)["tools"]
    assert {tool["name"] for tool in tools} >= set(walk.TOOLS)
    arguments = ("--method", "tools/call", "--tool-name", "add", "--tool-args-json", '{"a": 2, "b": 40}')
    assert _inspect(live, *arguments, transport=transport)["structuredContent"] == {"result": 42}


@pytest.mark.requirement("CONF-03")
def test_the_inspector_calls_every_tool(live: LiveServer, page_url: str) -> None:
    calls = {}
    for name, arguments in walk.arguments(page_url).items():
        # Nobody sits behind the command line: a question ends in an error result.
        status = TOOL_ERROR if name == "ask_name" else 0
        result = _inspect(live, "--method", "tools/call", "--tool-name", name,
                          "--tool-args-json", json.dumps(arguments), exit_status=status)  # fmt: skip
        text = "".join(block.get("text", "") for block in result.get("content", ()))
        calls[name] = {
            "text": text,
            "structured": result.get("structuredContent"),
            "isError": bool(result.get("isError")),
        }
    walk.check({"tools": walk.TOOLS, "calls": calls}, asks=False)
