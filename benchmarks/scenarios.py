"""The measured scenarios: the requests of each row and the checks of their responses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import orjson

from benchmarks.load import Reply, Script, WrongAnswer

VERSION = "2025-11-25"
MODERN = "2026-07-28"
ACCEPT = {"Accept": "application/json, text/event-stream"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": VERSION,
        "capabilities": {},
        "clientInfo": {"name": "bench", "version": "1"},
    },
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
PING: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
TOOLS_LIST: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
ECHO: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "echo", "arguments": {"text": "hello"}},
}
DISCOVER: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "server/discover"}
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {"sampling": {}, "elicitation": {"form": {}}},
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
}
PAGE = 1000


def request(port: int, method: str, headers: dict[str, str], message: Any = None) -> bytes:
    """Return the bytes of one request to /mcp of the server on ``port``."""
    body = b"" if message is None else orjson.dumps(message)
    lines = [f"{method} /mcp HTTP/1.1", f"Host: 127.0.0.1:{port}"]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def session_headers(reply: Reply) -> dict[str, str]:
    """Return the headers of later requests from the response to ``initialize``.

    Raise WrongAnswer without a session.
    """
    lower = reply.head.lower()
    at = lower.find(b"\r\nmcp-session-id:")
    if reply.status != 200 or at < 0 or _result(reply).get("protocolVersion") != VERSION:
        raise WrongAnswer(f"initialize: {reply.status} {reply.head!r} {reply.body[:300]!r}")
    session = reply.head[at + 17 :].split(b"\r", 1)[0].strip().decode()
    return {**ACCEPT, "Mcp-Session-Id": session, "MCP-Protocol-Version": VERSION}


def repeated(
    port: int, message: dict[str, Any], check: Callable[[Reply], None], more: dict[str, str] | None = None
) -> Script:
    """Initialize a session, then repeat one request with ``more`` headers. Each response is one operation."""
    more = more or {}
    headers = session_headers((yield request(port, "POST", {**ACCEPT, **more}, INITIALIZE))) | more
    _empty((yield request(port, "POST", headers, INITIALIZED)))
    data = request(port, "POST", headers, message)
    judged = b""
    while True:
        reply = yield data
        # A response identical to an accepted one needs no second parse.
        if reply.status != 200 or reply.body != judged:
            check(reply)
            judged = reply.body
        yield None


def alone(port: int, message: dict[str, Any], check: Callable[[Reply], None]) -> Script:
    """Repeat one request of 2026-07-28 without a session."""
    params = message.get("params", {})
    headers = {**ACCEPT, "MCP-Protocol-Version": MODERN, "Mcp-Method": message["method"]}
    if "name" in params:
        headers["Mcp-Name"] = params["name"]
    data = request(port, "POST", headers, {**message, "params": {**params, "_meta": META}})
    judged = b""
    while True:
        reply = yield data
        if reply.status != 200 or reply.body != judged:
            check(reply)
            if _result(reply).get("resultType") != "complete":
                raise WrongAnswer(f"not of {MODERN}: {reply.body[:300]!r}")
            judged = reply.body
        yield None


def each_once(port: int, message: dict[str, Any], headers: Iterator[dict[str, str]]) -> Script:
    """Repeat one request of 2026-07-28, each time with the next of ``headers``."""
    stands = {**ACCEPT, "MCP-Protocol-Version": MODERN, "Mcp-Method": message["method"]}
    for more in headers:
        _result((yield request(port, "POST", {**stands, **more}, {**message, "params": {"_meta": META}})))
        yield None
    raise WrongAnswer("there are no more headers to send")


def sessions(port: int) -> Script:
    """Repeat initialize, initialized and DELETE: three requests are one operation."""
    first = request(port, "POST", ACCEPT, INITIALIZE)
    while True:
        headers = session_headers((yield first))
        _empty((yield request(port, "POST", headers, INITIALIZED)))
        ended = yield request(port, "DELETE", headers)
        if ended.status not in (200, 202, 204):
            raise WrongAnswer(f"DELETE: {ended.status} {ended.body[:300]!r}")
        yield None


def fixed(port: int, message: dict[str, Any], body: bytes) -> Script:
    """Repeat the same request without a session and expect the same bytes: the floor."""
    data = request(port, "POST", ACCEPT, message)
    while True:
        reply = yield data
        if reply.status != 200 or reply.body != body:
            raise WrongAnswer(f"floor: {reply.status} {reply.body!r}")
        yield None


def check_ping(reply: Reply) -> None:
    if _result(reply) != {}:
        raise WrongAnswer(f"ping: {reply.body[:300]!r}")


def check_discovery(reply: Reply) -> None:
    if MODERN not in _result(reply).get("supportedVersions", []):
        raise WrongAnswer(f"server/discover: {reply.body[:300]!r}")


def check_echo(reply: Reply) -> None:
    result = _result(reply)
    content = result.get("content")
    if result.get("isError") or not content or content[0].get("text") != "hello":
        raise WrongAnswer(f"echo: {reply.body[:300]!r}")


def check_tools(total: int, *, paged: bool) -> Callable[[Reply], None]:
    """Return a check of the first page of ``total`` tools, or of all of them if the server does not page."""
    expected = min(total, PAGE) if paged else total

    def check(reply: Reply) -> None:
        tools = _result(reply).get("tools", [])
        complete = all(tool.get("inputSchema", {}).get("type") == "object" for tool in tools)
        if len({tool["name"] for tool in tools}) != expected or not complete:
            raise WrongAnswer(f"tools/list: {len(tools)} tools, expected {expected}: {reply.body[:300]!r}")

    return check


def _result(reply: Reply) -> dict[str, Any]:
    if reply.status != 200:
        raise WrongAnswer(f"{reply.status} {reply.body[:300]!r}")
    message = orjson.loads(reply.body)
    result = message.get("result")
    if message.get("jsonrpc") != "2.0" or not isinstance(result, dict):
        raise WrongAnswer(f"not a result: {reply.body[:300]!r}")
    return result


def _empty(reply: Reply) -> None:
    if reply.status not in (200, 202, 204) or reply.body:
        raise WrongAnswer(f"a notification was answered {reply.status} {reply.body[:300]!r}")
