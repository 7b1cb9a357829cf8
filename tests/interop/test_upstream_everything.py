"""The reference server "everything" as an upstream server: each kind of entry, and its questions."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from mcp_app.catalogue.upstreams import importing, refreshing, storing
from mcp_app.models import Upstream
from mcp_app.protocol.versions import V2025_11_25, V2026_07_28
from mcp_app.testing import Client
from tests.clients import node
from tests.interop.npm import packages
from tests.servers.live import eventually
from tests.servers.upstream_state import forget_upstreams

pytestmark = pytest.mark.django_db(transaction=True)
SCRIPT = "@modelcontextprotocol/server-everything/dist/index.js"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    script = packages("everything") / SCRIPT
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [node.executable(), str(script), "streamableHttp"]
    environment = {**os.environ, "PORT": str(port)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as running:
        try:
            eventually(lambda: _listens(port), 120, "the server")
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            running.kill()


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


@pytest.fixture(autouse=True)
def every(url: str, settings: Any) -> Iterator[Upstream]:
    """Publish everything that the server lists."""
    settings.MCP = {**settings.MCP, "EGRESS_ALLOW": ("127.0.0.0/8",)}
    row = storing.save_upstream(actor=None, name="all", url=url, sampling=True, roots=True)
    refreshing.refresh(upstream=row, actor=None)
    row.refresh_from_db()
    done = importing.import_items(upstream=row, keys=refreshing.listed_items(row), actor=None, publish=True)
    assert done.skipped == {}
    yield row
    forget_upstreams()


CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("all_echo", {"message": "tea"}, "Echo: tea"),
    ("all_get_sum", {"a": 1, "b": 2}, "The sum of 1 and 2 is 3."),
    ("all_trigger_elicitation_request", {}, "Name: Ada"),
    ("all_trigger_sampling_request", {"prompt": "Why?"}, "Because."),
    ("all_get_resource_links", {"count": 2}, "demo://resource/dynamic/"),
]


@pytest.mark.requirement("INT-63")
@pytest.mark.requirement("INT-64")
@pytest.mark.parametrize("version", [V2025_11_25, V2026_07_28])
def test_everything_of_the_reference_server_passes(version: str) -> None:
    asyncio.run(use_everything(version))


async def use_everything(version: str) -> None:
    answers: dict[str, Any] = {"elicit": {"name": "Ada"}, "sample": "Because.", "roots": ["file:///a"]}
    async with Client(stored=True, version=version, **answers) as ours:
        for name, arguments, expected in CALLS:
            result = await ours.call_tool(name, arguments)
            assert expected in str(result["content"]), name
        reports: list[Any] = []
        steps = {"duration": 0.2, "steps": 2}
        await ours.call_tool("all_trigger_long_running_operation", steps, on_progress=reports.append)
        assert [report["progress"] for report in reports] == [1, 2]
        (contents,) = await ours.read_resource("demo://resource/dynamic/text/1")
        assert contents["text"].startswith("Resource 1")
        assert len(await ours.list_resources()) == 7
        assert "simple prompt" in str(await ours.get_prompt("all_simple_prompt"))
        prompt = {"type": "ref/prompt", "name": "all_completable_prompt"}
        assert await ours.complete(prompt, "department", "E") == ["Engineering"]
