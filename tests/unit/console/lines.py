"""Message log lines for console tests, in the format of the log."""

from __future__ import annotations

from typing import Any

import orjson

from mcp_app.console.line import Line, lines_of

CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hi"}}}'


def fields(**changes: Any) -> list[Any]:
    """Return one line as it appears in a batch."""
    known = {
        "session": "s",
        "principal": "user:1/key:2",
        "at": 1_790_000_000.25,
        "direction": "in",
        "kind": "request",
        "method": "tools/call",
        "request_id": "1",
        "target": "echo",
        "payload": CALL.decode(),
        "answer": "{}",
        "outcome": "ok",
        "ms": 12.5,
    }
    return list((known | changes).values())


def batch(*lines: list[Any], **changes: Any) -> dict[str, Any]:
    """Return a batch as the message log publishes it."""
    return {"process": "host:1", "before": 0, "skipped": 0, "facts": [], "lines": list(lines)} | changes


def line(**changes: Any) -> Line:
    """Return the only line of a new batch."""
    (made,) = lines_of("1-0", batch(fields(**changes)))
    return made


def encoded(*lines: list[Any], **changes: Any) -> bytes:
    """Return a batch as encoded for transport."""
    return orjson.dumps(batch(*lines, **changes))
