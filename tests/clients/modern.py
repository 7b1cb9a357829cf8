"""A hand-written client of 2026-07-28 whose requests carry all metadata themselves."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Self

from tests.clients.raw_http import Answer, EventStream, RawClient

VERSION = "2026-07-28"
META = "io.modelcontextprotocol/"
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


@dataclass
class Modern:
    """A client that sends single requests to one process."""

    client: RawClient
    path: str = "/mcp"
    token: str | None = None
    capabilities: dict[str, Any] = field(default_factory=dict)
    next_id: int = 0

    @classmethod
    def at(cls, port: int, host: str = "127.0.0.1", **more: Any) -> Self:
        return cls(RawClient(host, port), **more)

    def post(self, method: str, params: dict[str, Any] | None = None, **headers: str) -> Answer:
        """Return the complete response to one request. ``headers`` use underscores for hyphens."""
        return self.client.request("POST", self.path, *self._request(method, params or {}, headers))

    def open(self, method: str, params: dict[str, Any] | None = None, **headers: str) -> EventStream:
        """Return the stream that answers one request."""
        request = self._request(method, params or {}, headers)
        found = self.client.open_stream("POST", self.path, *request)
        if isinstance(found, EventStream):
            return found
        raise AssertionError(f"expected a stream, got {found.status}: {found.body[:500]!r}")

    def _request(
        self, method: str, params: dict[str, Any], headers: dict[str, str]
    ) -> tuple[dict[str, str], bytes]:
        self.next_id += 1
        meta = {
            f"{META}protocolVersion": VERSION,
            f"{META}clientCapabilities": self.capabilities,
            **params.get("_meta", {}),
        }
        message = {
            "jsonrpc": "2.0",
            "id": self.next_id,
            "method": method,
            "params": {**params, "_meta": meta},
        }
        sent = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": VERSION,
            "Mcp-Method": method,
        }
        name = params.get(NAMED_BY.get(method, "taskId"))
        if isinstance(name, str):
            sent["Mcp-Name"] = name
        if self.token:
            sent["Authorization"] = f"Bearer {self.token}"
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        return {**sent, **more}, json.dumps(message).encode()

    def close(self) -> None:
        self.client.close()
