"""Sessions over HTTP+SSE (2024-11-05): an open event stream, and POSTs to the address that it names.

The stream belongs to the process that opened it, so each process has its own session of a caller.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urljoin

import orjson

from mcp_app.credentials.checks import target_of
from mcp_app.credentials.hiding import hidden_bytes, secret_texts
from mcp_app.credentials.outgoing import recorded
from mcp_app.egress import Answer, EgressFailed, EgressRefused, Request, Secrets, exchange
from mcp_app.egress.answer import OnContent
from mcp_app.protocol.client import handshake, outgoing
from mcp_app.protocol.client.answers import AnswerReader, Budget, Event
from mcp_app.protocol.client.events import EventDecoder
from mcp_app.protocol.client.faults import Kind, UpstreamFault
from mcp_app.protocol.client.outgoing import SESSION_HEADER, Outgoing, Peer
from mcp_app.protocol.messages import jsonrpc
from mcp_app.protocol.versions import V2024_11_05
from mcp_app.upstreams import connection
from mcp_app.upstreams.connection import LOCAL_SESSION, OnEvent
from mcp_app.upstreams.server import UpstreamServer

# Statuses of a POST with which servers of this transport refuse Streamable HTTP.
OLDER: Final = frozenset((400, 404, 405))
# A stream is closed after this time. The session is then opened again by the next request.
STREAM_SECONDS: Final = 3_600.0
MAX_SESSIONS: Final = 50
MAX_WAITING: Final = 1_000
# Enough for the forms of the last few tokens.
MAX_HIDDEN: Final = 200
_HEADERS: Final = (("Accept", "text/event-stream"),)
_ENDED: Final = "ended the session."


class EventSession:
    """An open event stream, and its open requests."""

    def __init__(self, server: UpstreamServer) -> None:
        self.id = f"{LOCAL_SESSION}{secrets.token_hex(16)}"
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._endpoint: asyncio.Future[str] = self._loop.create_future()
        self._open: dict[jsonrpc.Id, asyncio.Queue[bytes | None]] = {}
        self._answering: set[asyncio.Task[None]] = set()
        # The secrets that the server may repeat. Tokens are renewed while the stream is open.
        self._hidden: tuple[str, ...] = ()
        self._task = self._loop.create_task(self._read())
        # Its fault is raised to those who wait.
        self._task.add_done_callback(lambda task: task.cancelled() or task.exception())

    @property
    def server_key(self) -> str:
        """The key of the server."""
        return self._server.key

    @property
    def is_here(self) -> bool:
        """True while the stream is open and belongs to the running event loop."""
        return self._loop is asyncio.get_running_loop() and not self._task.done()

    async def opened(self, seconds: float) -> None:
        """Wait for the address of messages. Raise UpstreamFault."""
        async with asyncio.timeout(seconds):
            await asyncio.wait((self._endpoint, self._task), return_when=asyncio.FIRST_COMPLETED)
        if not self._endpoint.done():
            raise self._task.exception() or UpstreamFault(Kind.BROKEN_OFF, _ENDED)

    def close(self) -> None:
        """Close the stream, which ends the session."""
        self._loop.call_soon_threadsafe(self._task.cancel)

    async def request(
        self,
        server: UpstreamServer,
        sent: Outgoing,
        on_event: OnEvent | None,
        until: float,
        budget: Budget,
    ) -> Event | None:
        """Send a message and return the answer, or None for a message that gets none. Raise UpstreamFault.

        ``server`` has the account of this request. The token of its caller may differ from the stream's.
        """
        if sent.body is None:
            raise UpstreamFault(Kind.NOT_MCP, "has no stream for changes outside of calls.", status=405)
        self._server = server
        try:
            async with asyncio.timeout(max(until - time.monotonic(), 0.001)):
                if sent.id is None:
                    await self._post(server, sent, until)
                    return None
                return await self._answered(server, sent, on_event, until, budget)
        except TimeoutError:
            if time.monotonic() < until:
                raise
            raise UpstreamFault(Kind.TIMEOUT, "did not answer in time.") from None

    async def _answered(
        self,
        server: UpstreamServer,
        sent: Outgoing,
        on_event: OnEvent | None,
        until: float,
        budget: Budget,
    ) -> Event | None:
        number = sent.id
        assert number is not None
        messages = self._open[number] = asyncio.Queue(MAX_WAITING)
        reader = AnswerReader(number, budget)
        try:
            record = await self._post(server, sent, until)
            while True:
                message = await messages.get()
                if message is None:
                    raise UpstreamFault(Kind.BROKEN_OFF, "broke off its answer.")
                data = b"data: %b\n\n" % message
                if record is not None:
                    record(data)
                event = await connection.handled(reader.feed(data), on_event)
                if event is not None:
                    return event
        finally:
            self._open.pop(number, None)

    async def _post(self, server: UpstreamServer, sent: Outgoing, until: float) -> OnContent | None:
        """Send a message to the address that the stream named. Return what records its answer."""
        headers = tuple(pair for pair in sent.headers if pair[0] != SESSION_HEADER)
        request = Request("POST", self._endpoint.result(), headers, sent.body)

        async def attempt(own: Secrets) -> OnContent | None:
            self._hide(own)
            policy, left = connection.policy(connection.BUDGET), connection.left_until(until)
            # The address of messages often contains the id of the session.
            shown, private = server.shown_url, server.query_texts
            async with recorded(request, policy, own, shown=shown, private=private, seconds=left) as answer:
                await connection.accepted(server, answer, sent, own)
                return answer.on_content

        try:
            return await connection.with_secrets(server, until, attempt)
        except EgressRefused as refused:
            raise UpstreamFault(Kind.BLOCKED, f"cannot be used. {refused}", sent=refused.sent) from None
        except EgressFailed as failed:
            raise connection.failure(server, failed, until) from None

    def _hide(self, own: Secrets) -> None:
        """Hide secrets in the messages from now on."""
        self._hidden = tuple(dict.fromkeys((*secret_texts(own), *self._hidden)))[:MAX_HIDDEN]

    async def _read(self) -> None:
        """Read the stream until it ends. Raise UpstreamFault if it is not one of this transport."""
        until = time.monotonic() + STREAM_SECONDS
        request = Request("GET", self._server.url, _HEADERS)

        async def attempt(own: Secrets) -> None:
            self._hide(own)
            policy, left = connection.policy(connection.BUDGET), connection.left_until(until)
            async with exchange(request, policy, own, seconds=left) as answer:
                if answer.status in (401, 403):
                    raise handshake.fault_of(answer.status, b"", in_session=False)
                if answer.status != 200 or answer.content_type != "text/event-stream":
                    raise UpstreamFault(Kind.NOT_MCP, "has no event stream.", status=answer.status)
                await self._events(answer)

        try:
            await connection.with_secrets(self._server, until, attempt)
        except (EgressRefused, EgressFailed):
            raise UpstreamFault(Kind.BROKEN_OFF, _ENDED) from None
        finally:
            connection.local_sessions.pop(self.id, None)
            for messages in self._open.values():
                while messages.full():
                    messages.get_nowait()
                messages.put_nowait(None)

    async def _events(self, answer: Answer) -> None:
        decoder = EventDecoder(connection.BUDGET.message_bytes)
        async for chunk in answer.chunks():
            for data in decoder.feed(chunk):
                if not self._endpoint.done():
                    self._endpoint.set_result(self._address(data))
                else:
                    self._route(hidden_bytes(data, self._hidden).replace(b"\n", b" "))

    def _address(self, data: bytes) -> str:
        """Return the address of messages, which must be at the server itself (SSE1-05)."""
        found = urljoin(self._server.url, data.decode("utf-8", "replace").strip())
        with suppress(ValueError):
            if target_of(found).origin == target_of(self._server.url).origin:
                return found
        raise UpstreamFault(Kind.BLOCKED, "names an address of another server for its messages.")

    def _route(self, data: bytes) -> None:
        """Pass a message to its request. A message that names none belongs to the only open request."""
        try:
            message = orjson.loads(data)
        except orjson.JSONDecodeError:
            return
        if not isinstance(message, dict):
            return
        number, method, params = _id(message.get("id")), message.get("method"), message.get("params")
        only = next(iter(self._open.values())) if len(self._open) == 1 else None
        if method is None:
            found = None if number is None else self._open.get(number)
        elif number is not None:
            if only is None or method == "ping":
                self._decline(number, str(method))
                return
            found = only
        elif method == "notifications/progress" and isinstance(params, dict):
            token = _id(params.get("progressToken"))
            found = None if token is None else self._open.get(token)
        elif str(method).endswith("/list_changed"):
            found = next(reversed(self._open.values()), None)
        else:
            found = only
        if found is not None:
            # Above the bound, the request misses the message and ends with its timeout.
            with suppress(asyncio.QueueFull):
                found.put_nowait(data)

    def _decline(self, number: Any, method: str) -> None:
        peer = Peer(V2024_11_05)
        declined = outgoing.declined(peer, number, method)
        sent = outgoing.answered(peer, number, {}) if method == "ping" else declined
        task = self._loop.create_task(self._answer(sent))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _answer(self, sent: Outgoing) -> None:
        with suppress(UpstreamFault):
            await self._post(self._server, sent, time.monotonic() + 5.0)


def _id(value: Any) -> jsonrpc.Id | None:
    return value if type(value) in (str, int) else None


async def opened(server: UpstreamServer, seconds: float) -> EventSession:
    """Open a session at a server of 2024-11-05. Raise UpstreamFault."""
    there = sum(1 for each in connection.local_sessions.values() if each.server_key == server.key)
    if there >= MAX_SESSIONS:
        raise UpstreamFault(Kind.BUSY, f"has {MAX_SESSIONS} open sessions already.", sent=False)
    session = EventSession(server)
    is_open = False
    try:
        await session.opened(seconds)
        connection.local_sessions[session.id] = session
        is_open = True
    except TimeoutError:
        raise UpstreamFault(Kind.NOT_MCP, "did not name the address of its messages in time.") from None
    finally:
        if not is_open:
            session.close()
    return session
