"""Calls that run when an operator ends their connection, at two web processes and a worker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Literal

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.bounds import SLACK
from tests.integration.oauth.person import PEOPLE, Memory, Operator, Person, provider
from tests.integration.oauth.test_python_client import REVOKED_SECONDS
from tests.live import LiveServer, eventually

pytestmark = [pytest.mark.process]


@pytest.fixture(scope="module")
def with_worker() -> Iterator[LiveServer]:
    """Two web processes and a worker."""
    env = {"MCP_AUTH": "required", "MCP_APPS": "tests.integration.oauth.app"}
    with LiveServer(web_processes=2, worker=True, env=env) as running:
        running.shell(PEOPLE)
        yield running


@pytest.mark.parametrize("tool", ["wait", "wait_in_worker"])
@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.requirement("AUTH-18")
async def test_a_call_that_runs_ends_with_the_connection_that_it_came_by(
    with_worker: LiveServer, mode: Literal["auto", "legacy"], tool: str
) -> None:
    memory, person, name = Memory(), Person(), f"{tool} {mode}"
    calling = asyncio.create_task(call(with_worker, memory, person, mode, tool, name))
    await asyncio.to_thread(eventually, lambda: f"{name}: began" in with_worker.logs(), 60.0, "the call")
    person.decision = "deny"
    await asyncio.to_thread(end_each, with_worker)
    ended = time.monotonic()
    within = REVOKED_SECONDS + SLACK
    await asyncio.to_thread(eventually, lambda: f"{name}: over" in with_worker.logs(), within, "its end")
    async with asyncio.timeout(within - (time.monotonic() - ended)):
        with pytest.raises(Exception):  # noqa: B017, PT011 - the client's own, inside groups of them
            await calling


async def call(
    server: LiveServer, memory: Memory, person: Person, mode: Literal["auto", "legacy"], tool: str, name: str
) -> None:
    """Call a tool; raises when there is no result."""
    async with (
        httpx2.AsyncClient(auth=provider(server.url, memory, person), timeout=60) as http,
        Client(streamable_http_client(server.url, http_client=http), mode=mode) as client,
    ):
        result = await client.call_tool(tool, {"name": name})
        assert not result.is_error, result


def end_each(server: LiveServer) -> None:
    """An operator presses the button on every connection's page."""
    with Operator(server) as operator:
        operator.end_each()
