"""A minimal MCP client. It opens a session, measures when events of a stream arrive, and ends the session."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from itertools import count
from typing import Any

from mcp_app.egress import EgressFailed
from mcp_app.egress.self_check import OriginClient
from mcp_app.protocol.versions import V2025_11_25

BOTH = "application/json, text/event-stream"
EVENTS = "text/event-stream"
# Sent because real clients send it, and a proxy that compresses may delay events.
COMPRESSED = {"Accept-Encoding": "gzip"}
CLIENT = {"name": "mcp_doctor", "version": "1"}


class ConversationRefused(Exception):
    """Raised if the server rejects ``initialize``. ``status`` is the HTTP status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"initialize got status {status}")
        self.status = status


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The times at which the first and the last bytes of a stream arrived, in seconds after the request."""

    first: float
    last: float


class Conversation:
    """A session at the endpoint ``path``. Network failures raise EgressFailed."""

    def __init__(self, site: OriginClient, path: str, key: str) -> None:
        self._site = site
        self._path = path
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._numbers = count(1)

    def begin(self) -> None:
        """Open a session. Raises ConversationRefused if the server rejects it."""
        parameters = {"protocolVersion": V2025_11_25, "capabilities": {}, "clientInfo": CLIENT}
        answer = self._site.ask(
            "POST", self._path, *self._post("initialize", parameters, request_id=next(self._numbers))
        )
        session = answer.headers.get("mcp-session-id", "")
        if answer.status != 200 or not session:
            raise ConversationRefused(answer.status)
        self._headers["Mcp-Session-Id"] = session
        self._headers["MCP-Protocol-Version"] = V2025_11_25
        self._site.ask("POST", self._path, *self._post("notifications/initialized", {}))

    def end(self) -> None:
        """End the session."""
        self._site.ask("DELETE", self._path, self._headers)

    def call(self, tool: str, arguments: dict[str, Any]) -> Arrivals | None:
        """Call a tool and return the times at which its events arrived.

        Returns None if the answer is not an event stream, or if the stream does not end in time.
        """
        parameters = {"name": tool, "arguments": arguments, "_meta": {"progressToken": "doctor"}}
        started = time.monotonic()
        times: list[float] = []
        headers, body = self._post("tools/call", parameters, request_id=next(self._numbers))
        with self._site.open("POST", self._path, {**headers, **COMPRESSED}, body) as arriving:
            if not arriving.headers.get("content-type", "").startswith(EVENTS):
                return None
            try:
                times += [time.monotonic() - started for _ in arriving.chunks()]
            except EgressFailed:
                return None
        return Arrivals(times[0], times[-1]) if times else None

    def listen(self) -> Arrivals:
        """Open the standalone stream and return the time at which its first bytes arrived.

        Raises EgressFailed if no bytes arrive.
        """
        started = time.monotonic()
        with self._site.open(
            "GET", self._path, {**self._headers, **COMPRESSED, "Accept": EVENTS}
        ) as arriving:
            if arriving.status != 200:
                raise EgressFailed(f"GET for an event stream got status {arriving.status}.")
            for _ in arriving.chunks():
                took = time.monotonic() - started
                return Arrivals(took, took)
        raise EgressFailed("The event stream ended before its first bytes.")

    def _post(
        self, method: str, parameters: dict[str, Any], request_id: int | None = None
    ) -> tuple[dict[str, str], bytes]:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": parameters}
        if request_id is not None:
            message["id"] = request_id
        headers = {**self._headers, "Accept": BOTH, "Content-Type": "application/json"}
        return headers, json.dumps(message).encode()
