"""A raw HTTP, SSE and MCP client for tests that sees every byte and can cut a connection anywhere.

It reaches any process and uses none of the server's code.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

from tests.bounds import PATIENCE
from tests.clients.event_parser import Parser, ServerSentEvent
from tests.clients.raw_wire import (
    Answer,
    NotHttp,
    Wire,
    is_chunked,
    read_body,
    read_head,
    request_bytes,
)

__all__ = ["Answer", "EventStream", "Mcp", "NotHttp", "RawClient", "Wire", "events_of", "is_stream"]


def events_of(body: bytes) -> list[ServerSentEvent]:
    """Return the events of an SSE body, or of the part that was read."""
    return list(Parser().feed(body))


def is_stream(answer: Answer) -> bool:
    return answer.headers.get("content-type", "").startswith("text/event-stream")


class EventStream:
    """An open SSE response. Iterate it or take events one by one; ``cut`` breaks the connection."""

    def __init__(self, wire: Wire, status: int, headers: dict[str, str]) -> None:
        self.status = status
        self.headers = headers
        self.ended = False
        self.raw = b""
        self.last_event_id: str | None = None
        self._wire = wire
        self._parser = Parser()
        self._waiting: list[ServerSentEvent] = []

    def _read(self, deadline: float) -> None:
        """Read the next bytes into the parser and record the end of the stream."""
        piece = self._wire.chunk(deadline) if is_chunked(self.headers) else self._wire.more(deadline)
        if not piece:
            self.ended = True
            return
        self.raw += piece
        self._waiting += self._parser.feed(piece)

    def next(self, timeout: float = PATIENCE) -> ServerSentEvent | None:
        """Return the next event, or None at the end. Raise TimeoutError after ``timeout`` seconds."""
        deadline = time.monotonic() + timeout
        while not self._waiting:
            if self.ended:
                return None
            self._read(deadline)
        event = self._waiting.pop(0)
        if event.id:
            self.last_event_id = str(event.id)
        return event

    def __iter__(self) -> Iterator[ServerSentEvent]:
        while (event := self.next()) is not None:
            yield event

    @property
    def waiting(self) -> bool:
        """True if ``next`` can return an event without reading."""
        return bool(self._waiting)

    def salvage(self) -> None:
        """Parse the complete events of an interrupted chunk, as a reader of plain bytes would have."""
        _, end_of_size, data = self._wire.buffer.partition(b"\r\n")
        if is_chunked(self.headers) and end_of_size:
            self._waiting += self._parser.feed(data)

    def message(self, timeout: float = PATIENCE) -> Any:
        """Return the next JSON-RPC message after priming and retry events, or None at the end."""
        deadline = time.monotonic() + timeout
        while (event := self.next(deadline - time.monotonic())) is not None:
            if event.data:
                return json.loads(event.data)
        return None

    def messages(self, timeout: float = PATIENCE) -> list[Any]:
        """Return all remaining messages up to the end of the stream."""
        found = []
        deadline = time.monotonic() + timeout
        while (message := self.message(deadline - time.monotonic())) is not None:
            found.append(message)
        return found

    def quiet(self, seconds: float) -> bool:
        """Return True if only comments arrive for ``seconds`` and the stream stays open."""
        try:
            self.next(seconds)
        except TimeoutError:
            return True
        return False

    def read_bytes(self, size: int, timeout: float = PATIENCE) -> bytes:
        """Return at least ``size`` raw body bytes without chunk framing, to cut inside an event."""
        deadline = time.monotonic() + timeout
        while len(self.raw) < size and not self.ended:
            self._read(deadline)
        return self.raw

    def cut(self) -> None:
        self.ended = True
        self._wire.cut()

    def close(self) -> None:
        self.ended = True
        self._wire.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass
class RawClient:
    """An HTTP client: ``request`` uses one keep-alive connection, each ``open_stream`` a new one."""

    host: str
    port: int
    patience: float = PATIENCE
    _wire: Wire | None = field(default=None, repr=False)

    @property
    def authority(self) -> str:
        return f"{self.host}:{self.port}"

    def request(
        self, method: str, path: str, headers: dict[str, str] | None = None, body: bytes | None = None
    ) -> Answer:
        """Send one request and return the complete response.

        Reconnect if the server closed the connection.
        """
        data = request_bytes(method, path, self.authority, headers or {}, body)
        return self.exchange(data, method)

    def exchange(self, data: bytes, method: str = "POST") -> Answer:
        """Send these exact bytes and read one response. Raise NotHttp, TimeoutError or OSError."""
        for attempt in range(2):
            fresh = self._wire is None
            wire = self._wire or Wire(self.host, self.port, self.patience)
            self._wire = None
            try:
                answer = self._exchange_on(wire, data, method)
            except (NotHttp, OSError) as error:
                wire.close()
                # The server may have closed a keep-alive connection meanwhile: retry once on a new one. If
                # the answer is late, the request may still be running.
                if fresh or attempt or isinstance(error, TimeoutError):
                    raise
                continue
            if answer.headers.get("connection", "").lower() == "close":
                wire.close()
            else:
                self._wire = wire
            return answer
        raise AssertionError("unreachable")

    def _exchange_on(self, wire: Wire, data: bytes, method: str) -> Answer:
        deadline = time.monotonic() + self.patience
        wire.send(data)
        status, headers = read_head(wire, deadline)
        return Answer(status, headers, read_body(wire, method, status, headers, deadline))

    def open_stream(
        self, method: str, path: str, headers: dict[str, str] | None = None, body: bytes | None = None
    ) -> EventStream | Answer:
        """Return an EventStream for a ``text/event-stream`` response, else the complete Answer."""
        wire = Wire(self.host, self.port, self.patience)
        try:
            wire.send(request_bytes(method, path, self.authority, headers or {}, body))
            deadline = time.monotonic() + self.patience
            status, answer_headers = read_head(wire, deadline)
            if answer_headers.get("content-type", "").startswith("text/event-stream"):
                return EventStream(wire, status, answer_headers)
            answer = Answer(status, answer_headers, read_body(wire, method, status, answer_headers, deadline))
        except (NotHttp, OSError):
            wire.close()
            raise
        wire.close()
        return answer

    def close(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass
class Mcp:
    """A hand-written legacy MCP client with one session, usable at any process (``via``).

    Messages before a response are recorded in ``received``.
    """

    client: RawClient
    path: str = "/mcp"
    token: str | None = None
    session: str | None = None
    version: str | None = None
    server: dict[str, Any] = field(default_factory=dict)
    received: list[Any] = field(default_factory=list)
    next_id: int = 0
    client_name: str = "raw"

    @classmethod
    def at(cls, port: int, host: str = "127.0.0.1", **more: Any) -> Mcp:
        return cls(RawClient(host, port), **more)

    def via(self, port: int) -> Mcp:
        """Return a client of the same session at the process that listens on ``port``."""
        # The two clients share one session, so their request ids must differ (RPC-03).
        return replace(
            self, client=RawClient(self.client.host, port), received=[], next_id=self.next_id + 10_000
        )

    def headers(self, **more: str) -> dict[str, str]:
        """Return the headers of a request of this session. ``more`` uses underscores for hyphens."""
        found = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if self.session:
            found["Mcp-Session-Id"] = self.session
        if self.version and self.version >= "2025-06-18":
            found["MCP-Protocol-Version"] = self.version
        if self.token:
            found["Authorization"] = f"Bearer {self.token}"
        return {**found, **{name.replace("_", "-"): value for name, value in more.items()}}

    def post(self, message: Any, **more: str) -> Answer:
        """POST any JSON value (or exact bytes) and return the complete response."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return self.client.request("POST", self.path, self.headers(**more), body)

    def initialize(
        self, version: str = "2025-11-25", capabilities: dict[str, Any] | None = None, *, confirm: bool = True
    ) -> dict[str, Any]:
        """Initialize a session, send ``initialized`` if ``confirm``, and return the InitializeResult."""
        self.session = self.version = None
        params = {
            "protocolVersion": version,
            "capabilities": capabilities or {},
            "clientInfo": {"name": self.client_name, "version": "1"},
        }
        answer = self.post(self.request_message("initialize", params))
        if answer.status != 200:
            raise AssertionError(f"initialize was answered {answer.status}: {answer.body!r}")
        message = _last_message(answer)
        self.session = answer.headers.get("mcp-session-id")
        self.server = message["result"]
        self.version = self.server["protocolVersion"]
        if confirm:
            self.notify("notifications/initialized")
        return self.server

    def request_message(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        self.next_id += 1
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": self.next_id, "method": method}
        return message if params is None else {**message, "params": params}

    def call(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the JSON-RPC response to one request, JSON or SSE.

        Earlier messages are added to ``received``.
        """
        answer = self.post(self.request_message(method, params))
        response: dict[str, Any] = _last_message(answer)
        if is_stream(answer):
            self.received += [json.loads(event.data) for event in events_of(answer.body)[:-1] if event.data]
        return response

    def tool(self, name: str, **arguments: Any) -> dict[str, Any]:
        return self.call("tools/call", {"name": name, "arguments": arguments})

    def open_call(self, method: str, params: dict[str, Any] | None = None) -> EventStream:
        """Send one request that is answered by a stream, and return the open stream."""
        body = json.dumps(self.request_message(method, params)).encode()
        return _expect_stream(self.client.open_stream("POST", self.path, self.headers(), body))

    def notify(self, method: str, params: dict[str, Any] | None = None) -> Answer:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        return self.post(message if params is None else {**message, "params": params})

    def respond(
        self, request_id: Any, result: dict[str, Any] | None = None, error: dict[str, Any] | None = None
    ) -> Answer:
        """Respond to a request from the server."""
        outcome = {"error": error} if error is not None else {"result": result or {}}
        return self.post({"jsonrpc": "2.0", "id": request_id, **outcome})

    def get_stream(self, last_event_id: str | None = None) -> EventStream:
        """Return the standalone stream, or the stream resumed from an event id."""
        return _expect_stream(self.try_get_stream(last_event_id))

    def try_get_stream(self, last_event_id: str | None = None) -> EventStream | Answer:
        headers = self.headers()
        del headers["Content-Type"]
        headers["Accept"] = "text/event-stream"
        if last_event_id is not None:
            headers["Last-Event-ID"] = last_event_id
        return self.client.open_stream("GET", self.path, headers)

    def delete(self) -> Answer:
        return self.client.request("DELETE", self.path, self.headers())

    def close(self) -> None:
        self.client.close()


def _last_message(answer: Answer) -> Any:
    """Return the response of a JSON answer or the last message of an SSE answer."""
    if is_stream(answer):
        return json.loads([event.data for event in events_of(answer.body) if event.data][-1])
    return answer.json()


def _expect_stream(found: EventStream | Answer) -> EventStream:
    if isinstance(found, EventStream):
        return found
    raise AssertionError(f"expected a stream, got {found.status}: {found.body[:500]!r}")
