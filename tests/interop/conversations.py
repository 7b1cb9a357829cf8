"""One call on any revision over any transport, with each message up to its response.

With two web processes, one gets the request and the other the responses of the client.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Protocol

from tests.clients.modern import META, VERSION, Modern
from tests.clients.raw_http import Mcp, RawClient, events_of, is_stream
from tests.clients.raw_sse import HttpSseClient
from tests.clients.stdio_child import PATIENCE, Child
from tests.servers.live import LiveServer

Wire = dict[str, Any]
CAPABILITIES: Wire = {"elicitation": {}, "sampling": {}}


class Talk(Protocol):
    """A client of one revision over one transport."""

    def ask(self, method: str, params: Wire) -> Iterator[Wire]:
        """Yield the server's messages until the request is answered, the response last."""

    def answer(self, request_id: Any, result: Wire) -> None:
        """Answer a request of the server."""

    def close(self) -> None:
        """Disconnect as a client should."""


class Http:
    """Streamable HTTP with a session."""

    def __init__(self, live: LiveServer, version: str) -> None:
        self.mcp = live.mcp(0)
        assert self.mcp.initialize(version, CAPABILITIES)["protocolVersion"] == version
        self.other: Mcp = self.mcp.via(live.ports[1])

    def ask(self, method: str, params: Wire) -> Iterator[Wire]:
        if method != "tools/call":
            yield self.mcp.call(method, params)
            return
        with self.mcp.open_call(method, params) as stream:
            yield from iter(lambda: stream.message(PATIENCE), None)

    def answer(self, request_id: Any, result: Wire) -> None:
        assert self.other.respond(request_id, result).status == 202

    def close(self) -> None:
        assert self.mcp.delete().status == 200
        self.mcp.close()
        self.other.close()


class HttpSse:
    """HTTP+SSE: the stream is at one process, everything is posted to the other."""

    def __init__(self, live: LiveServer, version: str) -> None:
        self.client = HttpSseClient(live.ports)
        self.client.open(0)
        assert self.client.initialize(version, CAPABILITIES, 1)["protocolVersion"] == version

    def ask(self, method: str, params: Wire) -> Iterator[Wire]:
        request_id = self.client.send(method, params, 1)
        yield from _until_answered(self.client, request_id)

    def answer(self, request_id: Any, result: Wire) -> None:
        assert self.client.post({"jsonrpc": "2.0", "id": request_id, "result": result}, 1).status == 202

    def close(self) -> None:
        self.client.close()


class Stdio:
    """A stdio child process beside the installation, of any era."""

    def __init__(self, live: LiveServer, version: str) -> None:
        self.child = Child(live.installation)
        self.modern = version == VERSION
        self.next_id = 0
        if not self.modern:
            assert self.child.initialize(version, CAPABILITIES)["protocolVersion"] == version

    def ask(self, method: str, params: Wire) -> Iterator[Wire]:
        self.next_id += 1
        if self.modern:
            said = {f"{META}protocolVersion": VERSION, f"{META}clientCapabilities": CAPABILITIES}
            params = {**params, "_meta": {**params.get("_meta", {}), **said}}
        self.child.request(self.next_id, method, params)
        yield from _until_answered(self.child, self.next_id)

    def answer(self, request_id: Any, result: Wire) -> None:
        self.child.send({"jsonrpc": "2.0", "id": request_id, "result": result})

    def close(self) -> None:
        with self.child:
            assert self.child.end() == 0


class ModernHttp:
    """Streamable HTTP without sessions: each request goes to the next process."""

    def __init__(self, live: LiveServer, version: str) -> None:
        assert version == VERSION
        raw = [RawClient("127.0.0.1", port, PATIENCE) for port in live.ports]
        self.clients = [Modern(client, capabilities=CAPABILITIES) for client in raw]

    def ask(self, method: str, params: Wire) -> Iterator[Wire]:
        self.clients.append(self.clients.pop(0))
        answer = self.clients[0].post(method, params)
        if not is_stream(answer):
            yield answer.json()
            return
        yield from (json.loads(event.data) for event in events_of(answer.body) if event.data)

    def answer(self, request_id: Any, result: Wire) -> None:
        raise AssertionError("On this revision a server sends no requests.")

    def close(self) -> None:
        for client in self.clients:
            client.close()


class _Reads(Protocol):
    def message(self) -> Any: ...


def _until_answered(client: _Reads, request_id: int) -> Iterator[Wire]:
    """Yield messages up to the response to that request."""
    while True:
        message: Wire = client.message()
        yield message
        if message.get("id") == request_id and "method" not in message:
            return
