"""Makes hostile requests from a seed: random bytes, mutated messages, invalid headers, broken HTTP."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.fuzz.odd import (
    HEADER_NAMES,
    INFO,
    METHODS,
    ODD_HEADER_VALUES,
    ODD_VALUES,
    ODD_VERSIONS,
    PATHS,
    VERSIONS,
)


def messages() -> list[dict[str, Any]]:
    """Return one valid message of every kind in the legacy revisions."""
    texts: list[tuple[str, dict[str, Any] | None]] = [
        ("ping", None),
        ("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": INFO}),
        ("tools/list", {"cursor": "abc"}),
        ("tools/call", {"name": "test_simple_text"}),
        ("tools/call", {"name": "test_elicitation", "arguments": {"message": "x"}}),
        ("tools/call", {"name": "test_tool_with_progress", "_meta": {"progressToken": "t"}}),
        ("tools/call", {"name": "json_schema_2020_12_tool", "arguments": {"name": "x", "phone": "1"}}),
        ("prompts/list", {}),
        ("prompts/get", {"name": "test_prompt_with_arguments", "arguments": {"arg1": "a", "arg2": "b"}}),
        ("resources/list", {}),
        ("resources/templates/list", {}),
        ("resources/read", {"uri": "test://template/1/data"}),
        ("resources/subscribe", {"uri": "test://watched-resource"}),
        ("resources/unsubscribe", {"uri": "test://watched-resource"}),
        ("logging/setLevel", {"level": "debug"}),
        (
            "completion/complete",
            {
                "ref": {"type": "ref/prompt", "name": "test_prompt_with_arguments"},
                "argument": {"name": "arg1", "value": "t"},
            },
        ),
        ("server/discover", {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}),
    ]
    found: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": 1, "method": method, **({} if params is None else {"params": params})}
        for method, params in texts
    ]
    notices = (
        "notifications/initialized",
        "notifications/cancelled",
        "notifications/progress",
        "notifications/roots/list_changed",
        "notifications/unknown",
    )
    found += [{"jsonrpc": "2.0", "method": name, "params": {"requestId": 1}} for name in notices]
    found.append({"jsonrpc": "2.0", "id": "unknown", "result": {"action": "accept"}})
    found.append({"jsonrpc": "2.0", "id": "unknown", "error": {"code": -1, "message": "no"}})
    return found


MESSAGES = messages()
REQUESTS = [message for message in MESSAGES if "id" in message and message.get("params")]


@dataclass(frozen=True, slots=True)
class Case:
    """One hostile exchange. ``complete`` is False if the bytes are not a complete HTTP request."""

    kind: str
    method: str
    data: bytes
    complete: bool = True


def case(seed: int, number: int, host: str, session: str) -> Case:
    """Return the ``number``-th case of a seed, against an existing session."""
    dice = random.Random(f"{seed}/{number}")
    kind = dice.choices([name for name, _, _ in KINDS], [weight for _, weight, _ in KINDS])[0]
    make = next(maker for name, _, maker in KINDS if name == kind)
    method, path, headers, body = "POST", "/mcp", _headers(dice, host, session), b""
    return make(dice, Case(kind, method, body), path, headers)


Headers = list[tuple[str, str]]
Maker = Callable[[random.Random, Case, str, Headers], Case]


def _headers(dice: random.Random, host: str, session: str) -> Headers:
    """Return the headers of a valid request of that session."""
    return [
        ("Host", host),
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("Mcp-Session-Id", session),
        ("MCP-Protocol-Version", dice.choice(VERSIONS)),
    ]


def _request(
    kind: str, method: str, path: str, headers: Headers, body: bytes, *, complete: bool = True
) -> Case:
    names = {name.lower() for name, _ in headers}
    if not names & {"content-length", "transfer-encoding"}:
        headers = [*headers, ("Content-Length", str(len(body)))]
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    head = "\r\n".join(lines).encode("latin-1", "replace")
    return Case(kind, method, head + b"\r\n\r\n" + body, complete)


def _encoded(value: Any) -> bytes:
    return json.dumps(value).encode("utf-8", "surrogatepass")


def random_body(dice: random.Random, base: Case, path: str, headers: Headers) -> Case:
    """Return arbitrary bytes."""
    body = dice.randbytes(dice.choice((0, 1, 2, 7, 50, 400, 3000)))
    return _request(base.kind, "POST", path, headers, body)


def flipped_body(dice: random.Random, base: Case, path: str, headers: Headers) -> Case:
    """Return a valid message with bytes changed, removed, repeated or cut off."""
    body = bytearray(_encoded(dice.choice(MESSAGES)))
    for _ in range(dice.randint(1, 6)):
        _flip(dice, body)
    return _request(base.kind, "POST", path, headers, bytes(body))


def _flip(dice: random.Random, body: bytearray) -> None:
    at = dice.randrange(len(body) + 1)
    match dice.randrange(6):
        case 0 if at < len(body):
            body[at] = dice.randrange(256)
        case 1:
            del body[at : at + dice.randint(1, 8)]
        case 2:
            body[at:at] = dice.choice(
                (b"{", b"[", b'"', b"\\u0000", b"\\ud800", b"\xff", b",", b"NaN", b"1e999")
            )
        case 3:
            body[at:at] = body[at : at + dice.randint(1, 40)]
        case 4:
            body[at:at] = dice.choice((b"[" * 200, b'{"a":' * 100, b"9" * 400, b" " * 2000))
        case _:
            del body[at:]


def changed_members(dice: random.Random, base: Case, path: str, headers: Headers) -> Case:
    """Return a valid message in which members have odd values, odd names, or are missing."""
    message = json.loads(json.dumps(dice.choice(MESSAGES)))
    for _ in range(dice.randint(1, 4)):
        _change(dice, message)
    body = message if dice.random() > 0.15 else [message] * dice.choice((1, 2, 60))
    return _request(base.kind, "POST", path, headers, _encoded(body))


def _odd(dice: random.Random) -> Any:
    """Return a new odd value: a shared list or object would carry changes between cases."""
    return copy.deepcopy(dice.choice(ODD_VALUES))


def _change(dice: random.Random, message: Any) -> None:
    holder = message
    while isinstance(holder, dict) and holder:
        key = dice.choice(sorted(holder))
        inner = holder[key]
        if isinstance(inner, dict) and inner and dice.random() < 0.7:
            holder = inner
            continue
        match dice.randrange(5):
            case 0:
                del holder[key]
            case 1:
                holder[dice.choice(("x", "_meta", "cursor", "task", "", "\0", key + "x"))] = _odd(dice)
            case _:
                holder[key] = _odd(dice)
        return


def changed_params(dice: random.Random, base: Case, path: str, headers: Headers) -> Case:
    """Return a valid request with odd params: these reach the handlers."""
    message = copy.deepcopy(dice.choice(REQUESTS))
    for _ in range(dice.randint(1, 3)):
        _change(dice, message["params"])
    message["id"] = dice.choice((1, 7, "a", "unknown", 2**53 - 1, -5))
    return _request(base.kind, "POST", path, headers, _encoded(message))


def changed_headers(dice: random.Random, base: Case, path: str, headers: Headers) -> Case:
    """Return a valid message with odd, repeated, missing or very many headers."""
    for _ in range(dice.randint(1, 3)):
        _change_header(dice, headers)
    body = _encoded(dice.choice(MESSAGES))
    # A wrong length or encoding may leave the server waiting for bytes that never arrive.
    framing = any(
        name.lower() in ("content-length", "transfer-encoding", "expect", "upgrade", "connection")
        for name, _ in headers
    )
    return _request(base.kind, "POST", path, headers, body, complete=not framing)


def _change_header(dice: random.Random, headers: Headers) -> None:
    name, value = dice.choice(HEADER_NAMES), dice.choice(ODD_HEADER_VALUES + ODD_VERSIONS)
    match dice.randrange(5):
        case 0 if headers:
            headers.pop(dice.randrange(len(headers)))
        case 1 if headers:
            headers.append(dice.choice(headers))
        case 2:
            headers.extend((f"X-{number}", value[:50]) for number in range(dice.choice((10, 120))))
        case 3 if headers:
            at = dice.randrange(len(headers))
            headers[at] = (headers[at][0], value)
        case _:
            headers.append((name, value))


def other_method(dice: random.Random, base: Case, path: str, headers: Headers) -> Case:
    """Return another HTTP method or path, among them DELETE and GET with odd event ids."""
    method = dice.choice(METHODS)
    if method == "DELETE":
        # The session must survive: other cases need it.
        headers = [(name, value) for name, value in headers if name != "Mcp-Session-Id"]
        headers.append(("Mcp-Session-Id", dice.choice(ODD_HEADER_VALUES)))
    if method == "GET" and dice.random() < 0.8:
        headers.append(("Last-Event-ID", dice.choice(ODD_HEADER_VALUES)))
    body = b"" if dice.random() < 0.7 else _encoded(dice.choice(MESSAGES))
    return _request(base.kind, method, dice.choice(PATHS), headers, body, complete=False)


def broken_http(dice: random.Random, base: Case, path: str, headers: Headers) -> Case:
    """Return bytes that are not an HTTP request, or a request cut off or changed anywhere."""
    whole = bytearray(_request(base.kind, "POST", path, headers, _encoded(dice.choice(MESSAGES))).data)
    match dice.randrange(4):
        case 0:
            whole = bytearray(dice.randbytes(dice.randint(1, 300)))
        case 1:
            del whole[dice.randrange(len(whole)) :]
        case _:
            for _ in range(dice.randint(1, 10)):
                whole[dice.randrange(len(whole))] = dice.randrange(256)
    return Case(base.kind, "POST", bytes(whole), complete=False)


KINDS: tuple[tuple[str, int, Maker], ...] = (
    ("random body", 10, random_body),
    ("flipped body", 15, flipped_body),
    ("changed members", 15, changed_members),
    ("changed params", 30, changed_params),
    ("changed headers", 17, changed_headers),
    ("other method", 6, other_method),
    ("broken HTTP", 7, broken_http),
)
