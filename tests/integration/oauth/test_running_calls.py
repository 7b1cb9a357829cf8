"""Running calls when an operator ends their connection, at two web processes and a worker."""

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
from tests.integration.oauth.test_doors import asked, minted
from tests.integration.oauth.test_python_client import REVOKED_SECONDS
from tests.servers.live import LiveServer, eventually

pytestmark = [pytest.mark.process]

END = """
from mcp_app.oauth import secrets
from mcp_app.oauth.connections import end
from mcp_app.oauth.models import Connection
rows = Connection.objects.select_related("user", "client")
end(rows.get(access_tokens__digest=secrets.digest({token!r})), "test")
"""


@pytest.fixture(scope="module")
def with_worker() -> Iterator[LiveServer]:
    """Start two web processes and a worker."""
    env = {"MCP_AUTH": "required", "MCP_APPS": "tests.integration.oauth.app"}
    with LiveServer(web_processes=2, worker=True, env=env) as running:
        running.shell(PEOPLE)
        yield running


@pytest.mark.parametrize("tool", ["wait", "wait_in_worker"])
@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.requirement("AUTH-18")
async def test_running_call_ends_with_its_connection(
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


@pytest.mark.requirement("AUTH-18")
async def test_running_call_moves_to_the_replacing_connection(
    with_worker: LiveServer,
) -> None:
    place = "https://a.example/again"
    token = await asyncio.to_thread(minted, with_worker, "mcp mcp:tools", redirect=place)
    calling = asyncio.create_task(call_with(with_worker, token, "replaced"))
    await asyncio.to_thread(eventually, lambda: "replaced: began" in with_worker.logs(), 60.0, "the call")
    again = await asyncio.to_thread(minted, with_worker, "mcp mcp:tools", redirect=place)
    assert (await asyncio.to_thread(asked, with_worker, "tools/list", token)).status_code == 401
    assert "replaced: over" not in with_worker.logs()
    await asyncio.to_thread(with_worker.shell, END.format(token=again))
    within = REVOKED_SECONDS + SLACK
    await asyncio.to_thread(eventually, lambda: "replaced: over" in with_worker.logs(), within, "its end")
    calling.cancel()


@pytest.mark.requirement("AUTH-18")
async def test_running_call_ends_with_its_connection_without_redis() -> None:
    env = {"MCP_AUTH": "required", "MCP_APPS": "tests.integration.oauth.app"}
    with LiveServer(env=env) as server:
        await asyncio.to_thread(server.shell, PEOPLE)
        token = await asyncio.to_thread(minted, server, "mcp mcp:tools")
        calling = asyncio.create_task(call_with(server, token, "without Redis"))
        await asyncio.to_thread(eventually, lambda: "without Redis: began" in server.logs(), 60.0, "the call")
        await asyncio.to_thread(server.redis.stop)
        await asyncio.to_thread(server.shell, END.format(token=token))
        within = REVOKED_SECONDS + SLACK
        await asyncio.to_thread(eventually, lambda: "without Redis: over" in server.logs(), within, "its end")
        calling.cancel()


async def call_with(server: LiveServer, token: str, name: str) -> None:
    """Call the waiting tool in a session until the server ends it."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(server.url, http_client=http), mode="legacy") as client,
    ):
        await client.call_tool("wait", {"name": name})


async def call(
    server: LiveServer, memory: Memory, person: Person, mode: Literal["auto", "legacy"], tool: str, name: str
) -> None:
    """Call a tool; raise if there is no result."""
    async with (
        httpx2.AsyncClient(auth=provider(server.url, memory, person), timeout=60) as http,
        Client(streamable_http_client(server.url, http_client=http), mode=mode) as client,
    ):
        result = await client.call_tool(tool, {"name": name})
        assert not result.is_error, result


def end_each(server: LiveServer) -> None:
    """Press the button on every connection's page as an operator."""
    with Operator(server) as operator:
        operator.end_each()
