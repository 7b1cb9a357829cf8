"""Servers of 2024-11-05: the fall back to HTTP+SSE, its address of messages, and its end."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import parse_qs

import pytest
from asgiref.sync import sync_to_async

from mcp_app.credentials import services as credentials
from mcp_app.credentials.exchange import OF_ACCESS, Subject
from mcp_app.protocol.client.answers import Event, Progress
from mcp_app.protocol.client.faults import Kind, UpstreamFault
from mcp_app.upstreams import client, connection
from mcp_app.upstreams.caller import Caller
from mcp_app.upstreams.server import ExchangedAccount, UpstreamServer
from tests.servers.asgi_site import served
from tests.unit.upstreams.test_client import call, text

pytestmark = pytest.mark.requirement("INT-80")
TOOLS = [("tools", "tools/list", "tools")]


class OldServer:
    """A server of HTTP+SSE with one tool. ``endpoint`` is the address that its streams name."""

    def __init__(self) -> None:
        self.origin, self.endpoint = "", "/messages?session={}"
        self.streams: dict[str, asyncio.Queue[dict[str, Any] | None]] = {}
        self.opened = 0
        self.posted: list[str] = []

    def settings(self) -> UpstreamServer:
        return UpstreamServer(1, "old", f"{self.origin}/sse", era="auto", seconds=5.0)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/sse" and scope["method"] == "GET":
            await self._stream(receive, send)
        elif scope["path"] == "/messages":
            await self._message(scope, receive, send)
        else:
            await send({"type": "http.response.start", "status": 405, "headers": []})
            await send({"type": "http.response.body"})

    async def _stream(self, receive: Any, send: Any) -> None:
        self.opened += 1
        name = str(self.opened)
        messages = self.streams[name] = asyncio.Queue()
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        first = f"event: endpoint\ndata: {self.endpoint.format(name)}\n\n"
        await send({"type": "http.response.body", "body": first.encode(), "more_body": True})
        left = asyncio.create_task(self._left(receive, messages))
        while (message := await messages.get()) is not None:
            data = json.dumps({"jsonrpc": "2.0", **message})
            event = f"event: message\ndata: {data}\n\n".encode()
            await send({"type": "http.response.body", "body": event, "more_body": True})
        left.cancel()
        del self.streams[name]
        await send({"type": "http.response.body"})

    async def _left(self, receive: Any, messages: asyncio.Queue[Any]) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        messages.put_nowait(None)

    async def _message(self, scope: Any, receive: Any, send: Any) -> None:
        name = scope["query_string"].decode().partition("=")[2]
        message = json.loads((await receive())["body"])
        status = 202 if name in self.streams else 404
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body"})
        self.posted.append(message.get("method", "answer"))
        if status == 202 and "id" in message and "method" in message:
            for answer in self._answers(message, name):
                self.streams[name].put_nowait(answer)

    def _answers(self, message: dict[str, Any], name: str) -> list[Any]:
        number, params = message["id"], message.get("params", {})
        if message["method"] == "initialize":
            info = {"name": "old", "version": "1"}
            result = {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": info}
            return [{"id": number, "result": result}]
        if message["method"] == "tools/list":
            return [{"id": number, "result": {"tools": [{"name": "which", "inputSchema": {}}]}}]
        if params["name"] == "end":
            return [None]
        progress = {"progressToken": params["_meta"]["progressToken"], "progress": 1}
        forged = {"id": "other", "result": {}}
        answer = {"id": number, "result": {"content": [{"type": "text", "text": name}]}}
        ping = {"id": "p", "method": "ping"}
        return [ping, {"method": "notifications/progress", "params": progress}, forged, answer]


S = TypeVar("S", bound=OldServer)


@asynccontextmanager
async def running(server: S) -> AsyncIterator[S]:
    """Serve a server, and end its streams before it."""
    async with served(server) as server.origin:
        yield server
        for session in list(connection.local_sessions.values()):
            session.close()
        while server.streams:
            await asyncio.sleep(0.01)


@pytest.fixture
async def old() -> AsyncIterator[OldServer]:
    async with running(OldServer()) as found:
        yield found


async def test_server_that_knows_no_post_is_used_over_http_sse(old: OldServer) -> None:
    events: list[Event] = []

    async def record(event: Event) -> None:
        events.append(event)

    found = await client.listing(old.settings(), TOOLS)
    assert found.peer.version == "2024-11-05"
    assert [tool["name"] for tool in found.items["tools"]] == ["which"]
    name = text(await call(old.settings(), "which", on_event=record))
    assert [type(event) for event in events] == [Progress]
    assert text(await call(old.settings(), "which")) == name
    assert text(await call(old.settings(), "which", key="another")) != name
    assert "answer" in old.posted


async def test_ended_session_is_opened_again(old: OldServer) -> None:
    name = text(await call(old.settings(), "which"))
    with pytest.raises(UpstreamFault) as raised:
        await call(old.settings(), "end")
    assert raised.value.kind == Kind.BROKEN_OFF
    assert text(await call(old.settings(), "which")) != name


@pytest.mark.parametrize("endpoint", ["https://evil.example.com/m", "//evil.example.com/m", "file:///etc/x"])
async def test_address_of_messages_is_at_the_same_server(old: OldServer, endpoint: str) -> None:
    old.endpoint = endpoint
    with pytest.raises(UpstreamFault, match="another server") as raised:
        await call(old.settings(), "which")
    assert raised.value.kind == Kind.BLOCKED
    assert old.posted == []


async def test_server_without_an_endpoint_keeps_its_first_refusal(old: OldServer) -> None:
    server = UpstreamServer(1, "old", f"{old.origin}/nothing", era="auto", seconds=5.0)
    with pytest.raises(UpstreamFault, match="405") as raised:
        await client.requested(server, Caller("one"), "tools/call", {}, hops=0, seconds=5.0)
    assert raised.value.kind == Kind.NOT_MCP


async def test_calls_at_the_same_time_get_their_own_answers(old: OldServer) -> None:
    answers = await asyncio.gather(*(call(old.settings(), "which", key=f"{n % 2}") for n in range(10)))
    assert len({text(answer) for answer in answers[::2]}) == 1
    assert len({text(answer) for answer in answers}) == 2


class GuardedServer(OldServer):
    """A server of HTTP+SSE that accepts one token and repeats it. Each new token replaces the one before."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = 0

    @property
    def token(self) -> str:
        return f"secret-access-token-{self.tokens}"

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/token":
            self.tokens += 1
            body = json.dumps({"access_token": self.token, "token_type": "bearer"}).encode()
            headers = [(b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": body})
        elif self._is_refused(scope):
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body"})
        else:
            await super().__call__(scope, receive, send)

    def _is_refused(self, scope: Any) -> bool:
        is_guarded = scope["path"] == "/messages" or scope["method"] == "GET"
        return is_guarded and (b"authorization", f"Bearer {self.token}".encode()) not in scope["headers"]

    def _answers(self, message: dict[str, Any], name: str) -> list[Any]:
        return [
            {**answer, "result": {"content": [{"type": "text", "text": f"{name} {self.token}"}]}}
            if "content" in answer.get("result", {})
            else answer
            for answer in super()._answers(message, name)
        ]


@pytest.fixture
async def guarded() -> AsyncIterator[GuardedServer]:
    async with running(GuardedServer()) as found:
        yield found


async def with_credential(guarded: GuardedServer) -> UpstreamServer:
    """Store a credential for the server, and return the settings of the server."""
    await sync_to_async(credentials.save_credential)(
        actor=None, name="old-key", kind="client_credentials", origins=[guarded.origin],
        token_url=f"{guarded.origin}/token", secret={"client_id": "us", "client_secret": "s" * 20},
    )  # fmt: skip
    return UpstreamServer(1, "old", f"{guarded.origin}/sse", credential="old-key", seconds=5.0)


@pytest.mark.django_db(transaction=True)
async def test_refused_token_is_renewed_and_hidden_in_an_open_stream(guarded: GuardedServer) -> None:
    server = await with_credential(guarded)
    assert text(await call(server, "which")) == "1 [hidden]"
    guarded.tokens += 1
    assert text(await call(server, "which")) == "1 [hidden]"
    assert guarded.tokens == 3


@pytest.mark.django_db(transaction=True)
async def test_refused_token_is_renewed_before_the_stream(guarded: GuardedServer) -> None:
    server = await with_credential(guarded)
    await credentials.secrets_for("old-key", server.url)
    guarded.tokens += 1
    assert text(await call(server, "which")) == "1 [hidden]"


class ExchangingServer(OldServer):
    """A server of HTTP+SSE with an exchange of tokens. ``used`` are the credentials of its messages."""

    def __init__(self) -> None:
        super().__init__()
        self.used: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/token":
            (subject,) = parse_qs((await receive())["body"].decode())["subject_token"]
            answer = {"access_token": f"for-{subject}", "token_type": "Bearer"}
            answer["issued_token_type"] = OF_ACCESS
            headers = [(b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": json.dumps(answer).encode()})
            return
        if scope["path"] == "/messages":
            self.used.append(dict(scope["headers"])[b"authorization"].decode())
        await super().__call__(scope, receive, send)

    def _answers(self, message: dict[str, Any], name: str) -> list[Any]:
        # The answer to a ping would arrive at any time.
        return [each for each in super()._answers(message, name) if each.get("method") != "ping"]


@pytest.mark.requirement("INT-72")
@pytest.mark.django_db(transaction=True)
async def test_open_stream_does_not_lend_its_token_to_later_calls() -> None:
    async with running(ExchangingServer()) as old:
        await sync_to_async(credentials.save_credential)(
            actor=None, name="sts", kind="token_exchange", origins=[old.origin],
            token_url=f"{old.origin}/token", secret={"client_id": "us", "client_secret": "s" * 20},
        )  # fmt: skip

        async def used_by(subject: str) -> list[str]:
            login = Subject(subject, time.time() + 300)
            account = ExchangedAccount("7", "user:7/client:a", "sts", lambda: login)
            server = UpstreamServer(1, "old", f"{old.origin}/sse", seconds=5.0, account=account)
            del old.used[:]
            await call(server, "which")
            return old.used

        assert {*await used_by("wide")} == {"Bearer for-wide"}
        assert {*await used_by("narrow")} == {"Bearer for-narrow"}
        assert old.opened == 1
