"""A hand-written client of HTTP+SSE: one event stream at one process, messages to any process."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from tests.clients.raw_http import Answer, EventStream, RawClient

CLIENT = {"name": "raw", "version": "1"}


@dataclass
class HttpSseClient:
    """One session. ``received`` has every message except the responses that ``call`` returned."""

    ports: list[int]
    token: str | None = None
    address: str = ""
    next_id: int = 0
    received: list[Any] = field(default_factory=list)
    stream: EventStream | None = None
    _posters: dict[int, RawClient] = field(default_factory=dict)

    def headers(self, **more: str) -> dict[str, str]:
        found = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        return {**found, **{name.replace("_", "-"): value for name, value in more.items()}}

    def open(self, process: int = 0, path: str = "/sse") -> EventStream:
        """Open the event stream and read the address for messages from its first event."""
        client = RawClient("127.0.0.1", self.ports[process])
        found = client.open_stream("GET", path, self.headers(Accept="text/event-stream"))
        assert isinstance(found, EventStream), found
        self.stream = found
        first = found.next()
        assert first is not None
        assert first.event == "endpoint"
        self.address = str((first.data or b"").decode())
        return found

    def post(
        self,
        message: Any,
        process: int = 0,
        address: str | None = None,
        content_type: str = "application/json",
    ) -> Answer:
        """POST any JSON value (or exact bytes) to one process."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        poster = self._posters.setdefault(process, RawClient("127.0.0.1", self.ports[process]))
        headers = self.headers(Content_Type=content_type)
        return poster.request("POST", self.address if address is None else address, headers, body)

    def send(self, method: str, params: dict[str, Any] | None = None, process: int = 0) -> int:
        """Send one request and return its id. The response arrives on the stream."""
        self.next_id += 1
        message = {"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params or {}}
        answer = self.post(message, process)
        assert answer.status == 202, answer
        return self.next_id

    def call(self, method: str, params: dict[str, Any] | None = None, process: int = 0) -> dict[str, Any]:
        """Return the response to one request. Earlier messages are added to ``received``."""
        return self.answer_to(self.send(method, params, process))

    def answer_to(self, request_id: int) -> dict[str, Any]:
        while (message := self.message()).get("id") != request_id or "method" in message:
            self.received.append(message)
        return message

    def message(self) -> dict[str, Any]:
        """Return the next message. Assert that its event has the transport's name and no id."""
        assert self.stream is not None
        event = self.stream.next()
        while event is not None and event.data is None:
            event = self.stream.next()
        assert event is not None, "the stream ended"
        assert event.event == "message"
        assert event.id is None
        found: dict[str, Any] = json.loads(event.data or b"")
        return found

    def notify(self, method: str, params: dict[str, Any] | None = None, process: int = 0) -> Answer:
        return self.post({"jsonrpc": "2.0", "method": method, "params": params or {}}, process)

    def initialize(
        self, version: str = "2024-11-05", capabilities: dict[str, Any] | None = None, process: int = 0
    ) -> dict[str, Any]:
        """Initialize the session and return the InitializeResult."""
        params = {"protocolVersion": version, "capabilities": capabilities or {}, "clientInfo": CLIENT}
        result: dict[str, Any] = self.call("initialize", params, process)["result"]
        assert self.notify("notifications/initialized", process=process).status == 202
        return result

    def close(self) -> None:
        if self.stream is not None:
            self.stream.close()
        for poster in self._posters.values():
            poster.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
