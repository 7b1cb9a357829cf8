"""A hand-written client of 2026-07-28 whose requests may go to any process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.bounds import PATIENCE
from tests.clients.raw_http import EventStream, RawClient, events_of, is_stream
from tests.clients.raw_wire import Answer

VERSION = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
Wire = dict[str, Any]


@dataclass
class Modern:
    """A client of several processes.

    ``status`` is the newest HTTP status; ``received`` has the earlier messages.
    """

    port: int
    token: str | None = None
    capabilities: Wire = field(default_factory=dict)
    request_id: str | int = 1
    status: int = 0
    received: list[Wire] = field(default_factory=list)
    patience: float = PATIENCE
    meta: Wire = field(default_factory=dict)
    path: str = "/mcp"

    def post(self, method: str, params: Mapping[str, Any]) -> Answer:
        """Send one request and return the complete response."""
        with RawClient("127.0.0.1", self.port, self.patience) as client:
            return client.request("POST", self.path, *self._request(method, params))

    def listen(self, asked: Mapping[str, Any]) -> EventStream:
        """Open a subscription and return its stream with the first message unread."""
        request = self._request("subscriptions/listen", {"notifications": asked})
        found = RawClient("127.0.0.1", self.port).open_stream("POST", self.path, *request)
        assert isinstance(found, EventStream), found
        return found

    def _request(self, method: str, params: Mapping[str, Any]) -> tuple[dict[str, str], bytes]:
        """Return headers and body."""
        meta = {
            PREFIX + "protocolVersion": VERSION,
            PREFIX + "clientCapabilities": self.capabilities,
            PREFIX + "clientInfo": {"name": "raw", "version": "1"},
            **self.meta,
        }
        message = {
            "jsonrpc": "2.0",
            "id": self.request_id,
            "method": method,
            "params": {**params, "_meta": meta},
        }
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": VERSION,
            "Mcp-Method": method,
        }
        if method in NAMED:
            headers["Mcp-Name"] = str(params[NAMED[method]])
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        return headers, json.dumps(message).encode()

    def request(self, method: str, params: Mapping[str, Any]) -> Wire:
        """Return the result or the error of one request."""
        answer = self.post(method, params)
        self.status = answer.status
        if is_stream(answer):
            messages = [json.loads(event.data) for event in events_of(answer.body) if event.data]
        else:
            messages = [answer.json()]
        self.received = messages[:-1]
        found: Wire = messages[-1].get("result") or messages[-1]["error"]
        return found
