"""Records messages of the server, in web processes, in stdio servers, and in the processes of the tests.

``install`` wraps the transports from outside: without recording, the server is not affected. A line has the
receiver, the requests of that client, and the message as sent.
"""

from __future__ import annotations

import itertools
import os
import re
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import orjson

from mcp_app.execution.calls.reply import Answered
from mcp_app.protocol.messages.server import ENDPOINT
from mcp_app.protocol.versions import LEGACY, is_modern
from mcp_app.testing import client as testing
from mcp_app.transports.http_sse.endpoint import HttpSse
from mcp_app.transports.stdio.server import StdioServer
from mcp_app.transports.streamable_http.shortcut.quick_endpoint import QuickEndpoint
from mcp_app.transports.streamable_http.shortcut.started import STARTED, StartedCall, StartedSession
from tests.clients.event_parser import Parser, ServerSentEvent

STDIO = "stdio/"
MODERN_META = "io.modelcontextprotocol/protocolVersion"
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Asked = list[tuple[Any, str]]


class Recorder:
    """The file of one process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = -1
        self._owner = 0
        self._numbers = itertools.count()

    def write(self, speaker: str, revision: str | None, asked: Asked, said: bytes = b"") -> None:
        """Write one line: requests asked, or a message ``said``, to a speaker."""
        if self._owner != os.getpid():  # After a fork as well: one file per process.
            self._owner = os.getpid()
            path = self._folder / f"{self._owner}-{secrets.token_hex(4)}.lines"
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        # Invalid JSON must not look like several messages here.
        line = said.replace(b"\n", b"\\n")
        os.write(self._file, orjson.dumps([speaker, revision, asked]) + b"\t" + line + b"\n")

    def name(self, kind: str) -> str:
        """Return a name for a speaker without a session."""
        return f"{kind}{os.getpid()}-{id(self)}-{next(self._numbers)}"


class Exchange:
    """One HTTP request and its response."""

    def __init__(self, recorder: Recorder, scope: Message) -> None:
        fields = {bytes(name).lower(): bytes(value).decode("latin-1") for name, value in scope["headers"]}
        query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
        named = query.get("session_id") or query.get("id") or [fields.get(b"mcp-session-id", "")]
        self._recorder = recorder
        self._speaker = named[0] or recorder.name("request/")
        self._version = fields.get(b"mcp-protocol-version", "")
        self._body = b""
        self._answer = b""
        self._parser: Parser | None = None
        self._json = False
        self._revision: str | None = None

    def heard(self, message: Message) -> None:
        """Record a part of the request."""
        if message["type"] == "http.request":
            self._body += message.get("body", b"")

    def said(self, message: Message) -> None:
        """Record a part of the response."""
        if message["type"] == "http.response.start":
            self._begin({bytes(name).lower(): bytes(value) for name, value in message["headers"]})
        elif self._parser is not None:
            for event in self._parser.feed(message.get("body", b"")):
                self._event(event)
        elif self._json:
            self._answer += message.get("body", b"")
            if not message.get("more_body", False):
                self._recorder.write(self._speaker, self._revision, [], self._answer)

    def _begin(self, headers: dict[bytes, bytes]) -> None:
        kind = headers.get(b"content-type", b"")
        self._json = kind.startswith(b"application/json")
        self._parser = Parser() if kind.startswith(b"text/event-stream") else None
        session = headers.get(b"mcp-session-id")
        if session is not None:
            self._speaker = session.decode()
        asked, named = asked_in(self._body)
        modern = named or self._version
        if modern and is_modern(modern):
            self._revision, self._speaker = modern, self._recorder.name("modern/")
        if asked:
            self._recorder.write(self._speaker, self._revision, asked)

    def _event(self, event: ServerSentEvent) -> None:
        if event.event == "endpoint" and event.data:
            self._speaker = event.data.decode().rpartition("=")[2]
        elif event.data:
            self._recorder.write(self._speaker, self._revision, [], event.data)


# The requests of started calls, until they are answered or take the ordinary path.
_held: dict[int, Exchange] = {}
_asking: ContextVar[tuple[str, str | None, str] | None] = ContextVar("asking", default=None)


def asked_in(body: bytes) -> tuple[Asked, str]:
    """Return the requests in a body by id, and the modern revision they name."""
    try:
        root = orjson.loads(body)
    except orjson.JSONDecodeError:
        return [], ""
    asked: Asked = []
    version: Any = ""
    for member in root if isinstance(root, list) else [root]:
        if not isinstance(member, dict) or not isinstance(member.get("method"), str):
            continue
        params = member.get("params")
        meta = params.get("_meta") if isinstance(params, dict) else None
        version = meta.get(MODERN_META, version) if isinstance(meta, dict) else version
        if isinstance(member.get("id"), str | int):
            asked.append((member["id"], member["method"]))
    return asked, version if isinstance(version, str) else ""


def install(folder: Path) -> None:
    """Record messages of this process into ``folder`` from now on; call it once a process."""
    recorder = Recorder(folder)
    for application in (QuickEndpoint, HttpSse):
        _around_asgi(recorder, application)
    _around_quick(recorder)
    _around_begun()
    _around_stdio(recorder)
    _around_client(recorder)


def _around_asgi(recorder: Recorder, application: Any) -> None:
    plain = application.__call__

    async def call(self: Any, scope: Message, receive: Receive, send: Send) -> None:
        begun = scope.get(STARTED)
        exchange = Exchange(recorder, scope) if begun is None else _held.pop(id(begun))

        async def heard() -> Message:
            message = await receive()
            exchange.heard(message)
            return message

        async def said(message: Message) -> None:
            exchange.said(message)
            await send(message)

        await plain(self, scope, heard, said)

    application.__call__ = call


def _around_quick(recorder: Recorder) -> None:
    plain = QuickEndpoint.quick

    def quick(
        self: QuickEndpoint,
        headers: list[tuple[bytes, bytes]],
        body: bytes,
        address: str,
        path: str = ENDPOINT,
    ) -> Any:
        answer = plain(self, headers, body, address, path)
        if answer is not None:
            exchange = Exchange(recorder, {"headers": headers})
            exchange.heard({"type": "http.request", "body": body})
            if isinstance(answer, bytes):
                _answer(exchange, answer)
            elif isinstance(answer, StartedSession) and answer.answer is not None:
                _answer_session(exchange, answer.answer)
            else:
                _held[id(answer)] = exchange
        return answer

    plain_delete = QuickEndpoint.quick_delete

    def quick_delete(
        self: QuickEndpoint, headers: list[tuple[bytes, bytes]], address: str, path: str = ENDPOINT
    ) -> Any:
        begun = plain_delete(self, headers, address, path)
        if begun is not None:
            _held[id(begun)] = Exchange(recorder, {"headers": headers})
        return begun

    QuickEndpoint.quick = quick  # type: ignore[method-assign]
    QuickEndpoint.quick_delete = quick_delete  # type: ignore[method-assign]


def _answer(exchange: Exchange, answer: bytes, *more: tuple[bytes, bytes]) -> None:
    kind = (b"content-type", b"application/json")
    exchange.said({"type": "http.response.start", "headers": [kind, *more]})
    exchange.said({"type": "http.response.body", "body": answer})


def _answer_session(exchange: Exchange, answered: Answered) -> None:
    if answered.session_id is not None:
        _answer(exchange, answered.body, (b"mcp-session-id", answered.session_id.encode()))


def _around_begun() -> None:
    plain, plain_session = StartedCall.watch, StartedSession.watch

    def watch(self: StartedCall, on_change: Callable[[], None] | None) -> None:
        def changed() -> None:
            if self.answer:
                _answer(_held.pop(id(self)), self.answer)
            assert on_change is not None
            on_change()

        plain(self, None if on_change is None else changed)

    def watch_session(self: StartedSession, on_change: Callable[[], None] | None) -> None:
        def changed() -> None:
            # Without an answer it takes the ordinary path.
            if self.answer is not None and id(self) in _held:
                _answer_session(_held.pop(id(self)), self.answer)
            assert on_change is not None
            on_change()

        plain_session(self, None if on_change is None else changed)

    StartedCall.watch = watch  # type: ignore[method-assign]
    StartedSession.watch = watch_session  # type: ignore[method-assign]


def _around_stdio(recorder: Recorder) -> None:
    take, write = StdioServer._take, StdioServer._write
    speaker = recorder.name(STDIO)

    async def taken(self: StdioServer, frame: Any) -> None:
        if isinstance(frame, bytes):
            asked, version = asked_in(frame)
            recorder.write(speaker, version if version and is_modern(version) else None, asked)
        await take(self, frame)

    async def written(self: StdioServer, message: bytes) -> None:
        recorder.write(speaker, None, [], message)
        await write(self, message)

    StdioServer._take = taken  # type: ignore[method-assign]
    StdioServer._write = written  # type: ignore[method-assign]


def _around_client(recorder: Recorder) -> None:
    """Record the in-process client of application tests, which has no transport."""
    request, unwrap, hear = testing.Client.request, testing.unwrap, testing.Client._on_message

    async def requested(self: testing.Client, method: str, *given: Any, **named: Any) -> Any:
        spoken = self.version if is_modern(self.version or LEGACY[0]) else self.server.get("protocolVersion")
        token = _asking.set((recorder.name("client/"), spoken, method))
        try:
            return await request(self, method, *given, **named)
        finally:
            _asking.reset(token)

    def note(message: dict[str, Any]) -> None:
        asking = _asking.get()
        if asking is not None and message:
            speaker, revision, method = asking
            recorder.write(speaker, revision, [(message.get("id"), method)], orjson.dumps(message))

    def unwrapped(message: dict[str, Any]) -> Any:
        note(message)
        return unwrap(message)

    async def heard(self: testing.Client, message: dict[str, Any], *rest: Any) -> None:
        note(message)
        await hear(self, message, *rest)

    testing.Client.request = requested  # type: ignore[method-assign]
    testing.Client._on_message = heard  # type: ignore[method-assign]
    testing.unwrap = unwrapped


_ID = re.compile(rb'^\{"jsonrpc":"2\.0","id":(?:"(?:[^"\\]|\\.)*"|-?\d+|null),')


def without_id(message: bytes) -> bytes:
    """Return a message without its varying id, for comparison only."""
    return _ID.sub(b"", message)
