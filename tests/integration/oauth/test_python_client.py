"""The official Python client logs in against two web processes."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull

from tests.bounds import SLACK
from tests.integration.oauth.person import CALLBACK, DOCUMENT, PUBLISHED, Memory, Operator, Person, provider
from tests.servers.live import LiveServer

pytestmark = [pytest.mark.process]
# The guaranteed time of a revocation (S5), plus the interval of its checks.
REVOKED_SECONDS = 12.0


@asynccontextmanager
async def connected(
    server: LiveServer, memory: Memory, person: Person, auth: OAuthClientProvider | None = None
) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(auth=auth or provider(server.url, memory, person), timeout=60) as http,
        Client(streamable_http_client(server.url, http_client=http)) as client,
    ):
        yield client


async def added(client: Client) -> object:
    result = await client.call_tool("add", {"a": 2, "b": 3})
    return result.structured_content


@pytest.mark.requirement("AUTH-01", "AUTH-02", "AUTH-04", "AUTH-27", "AUTH-28", "AUTH-34")
async def test_unknown_client_registers_logs_in_and_calls(server: LiveServer) -> None:
    memory, person = Memory(), Person()
    async with connected(server, memory, person) as client:
        assert await added(client) == {"result": 5}
    assert person.opened == 1
    assert memory.client is not None
    assert memory.client.token_endpoint_auth_method == "none"
    assert memory.tokens is not None
    assert memory.tokens.access_token.startswith("mcpat_")


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
@pytest.mark.requirement("AUTH-46")
async def test_preregistered_client_logs_in_with_its_secret(server: LiveServer, method: str) -> None:
    said = {"client_name": "Entered", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": method}
    printed = server.shell(
        "from mcp_app.oauth.registration import create_client, metadata_of\n"
        f"client, secret = create_client(metadata_of({said!r}), actor=None)\n"
        "import json\n"
        "print(json.dumps([client.client_id, secret]))"
    )
    client_id, secret = json.loads(printed.strip().splitlines()[-1])
    known = OAuthClientInformationFull(client_id=client_id, client_secret=secret, **said)
    memory = Memory(known)
    async with connected(server, memory, Person()) as client:
        assert await added(client) == {"result": 5}


@pytest.mark.requirement("AUTH-41")
async def test_client_with_metadata_document_logs_in_without_registering(server: LiveServer) -> None:
    await asyncio.to_thread(server.shell, PUBLISHED)
    memory, person = Memory(), Person()
    own_way = provider(server.url, memory, person, DOCUMENT)
    async with connected(server, memory, person, own_way) as client:
        assert await added(client) == {"result": 5}
    assert person.opened == 1
    assert memory.client is not None
    assert memory.client.client_id == DOCUMENT


@pytest.mark.requirement("AUTH-36")
async def test_five_clients_sharing_a_token_refresh_concurrently(
    server: LiveServer,
) -> None:
    memory, person = Memory(), Person()
    first = provider(server.url, memory, person)
    async with connected(server, memory, person, first) as client:
        await added(client)

    async def later() -> Memory:
        """Connect as a program that runs an hour later with the stored tokens."""
        own = Memory(memory.client)
        own.tokens = memory.tokens
        own_way = provider(server.url, own, person)
        own_way.context.oauth_metadata = first.context.oauth_metadata
        own_way.context.token_expiry_time = 1.0
        async with connected(server, own, person, own_way) as client:
            assert await added(client) == {"result": 5}
        return own

    kept = await asyncio.gather(*(later() for _ in range(5)))
    assert person.opened == 1
    assert len({own.tokens.access_token for own in kept if own.tokens}) == 1
    assert kept[0].tokens != memory.tokens


@pytest.mark.requirement("AUTH-36")
async def test_concurrent_refreshes_return_one_token_pair(
    server: LiveServer,
) -> None:
    memory = Memory()
    async with connected(server, memory, Person()) as client:
        await added(client)
    assert memory.tokens is not None
    assert memory.client is not None
    form = {
        "grant_type": "refresh_token",
        "refresh_token": memory.tokens.refresh_token,
        "client_id": memory.client.client_id,
    }
    async with httpx2.AsyncClient(timeout=60) as http:
        # At both processes, so that no lock of one process decides.
        places = [f"http://127.0.0.1:{server.ports[number % 2]}/oauth/token" for number in range(5)]
        answers = await asyncio.gather(*(http.post(place, data=form) for place in places))
        assert [answer.status_code for answer in answers] == [200] * 5
        assert len({(each.json()["access_token"], each.json()["refresh_token"]) for each in answers}) == 1
        for token in (memory.tokens.access_token, answers[0].json()["access_token"]):
            assert (await metadata(http, server, token)).status_code == 200


async def metadata(
    http: httpx2.AsyncClient, server: LiveServer, token: str, process: int = 0
) -> httpx2.Response:
    """Return the response to a request that any token may make."""
    return await http.post(
        f"http://127.0.0.1:{server.ports[process]}/mcp",
        headers={
            "Authorization": f"Bearer {token}",
            "Accept": "application/json, text/event-stream",
            "Mcp-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/list",
        },
        json={
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/list",
            "params": {
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
                    "io.modelcontextprotocol/clientCapabilities": {},
                }
            },
        },
    )


@pytest.mark.requirement("AUTH-18")
async def test_ended_connection_ends_its_calls_and_streams_at_both_processes(
    server: LiveServer,
) -> None:
    memory, person = Memory(), Person()
    async with connected(server, memory, person) as client:
        await added(client)
        assert memory.tokens is not None
        token = memory.tokens.access_token
        async with httpx2.AsyncClient(timeout=60) as http:
            for process in (0, 1):
                assert (await metadata(http, server, token, process)).status_code == 200
            opened = [asyncio.Event(), asyncio.Event()]
            streams = [
                asyncio.create_task(stream_ended(http, port, token, event))
                for port, event in zip(server.ports, opened, strict=True)
            ]
            for event in opened:
                await event.wait()
            await asyncio.to_thread(end_each_connection, server)
            ended = time.monotonic()
            for process in (0, 1):
                while (await metadata(http, server, token, process)).status_code != 401:
                    assert time.monotonic() - ended < REVOKED_SECONDS + SLACK
                    await asyncio.sleep(0.2)
            await asyncio.wait_for(asyncio.gather(*streams), REVOKED_SECONDS + SLACK)
            assert time.monotonic() - ended < REVOKED_SECONDS + SLACK
        # The client's refresh token is refused as well, so its user is asked again.
        assert await added(client) == {"result": 5}
        assert person.opened == 2


def end_each_connection(server: LiveServer) -> None:
    """Press the button on every connection's page as an operator."""
    with Operator(server) as operator:
        operator.end_each()


async def stream_ended(http: httpx2.AsyncClient, port: int, token: str, opened: asyncio.Event) -> None:
    """Return when the server ends a stream opened with the token."""
    headers = {"Authorization": f"Bearer {token}", "Accept": "text/event-stream"}
    async with http.stream("GET", f"http://127.0.0.1:{port}/sse", headers=headers) as stream:
        assert stream.status_code == 200
        async for _ in stream.aiter_lines():
            opened.set()


async def test_denied_client_gets_no_token(server: LiveServer) -> None:
    memory, person = Memory(), Person("deny")
    with pytest.raises(Exception):  # noqa: B017, PT011 - the client's own, inside groups of them
        async with connected(server, memory, person):
            pass
    assert person.way_back["error"] == "access_denied"
    assert memory.tokens is None


async def test_no_secret_is_logged(server: LiveServer) -> None:
    memory, person = Memory(), Person()
    async with connected(server, memory, person) as client:
        await added(client)
    assert memory.tokens is not None
    shown = server.logs()
    for secret in (memory.tokens.access_token, memory.tokens.refresh_token or "", person.way_back["code"]):
        assert secret not in shown
