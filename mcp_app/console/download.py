"""Download of messages as JSON Lines or as a HAR file, the format of browsers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import orjson

from mcp_app.console.history import every
from mcp_app.console.line import Line
from mcp_app.database.queries import aquery
from mcp_app.message_log.search.language import Search
from mcp_app.protocol.messages.server import ENDPOINT

MOST = 100_000
# JSON with fewer brackets is certainly not nested too deeply.
DEEP = 200
TYPES = {"jsonl": "application/x-ndjson", "har": "application/json"}


async def written(form: str, search: Search, session: str) -> AsyncIterator[bytes]:
    """Yield the stored messages, newest first, as a file of a type in ``TYPES``."""
    pages = every(search, session, MOST)
    first = True
    if form == "har":
        yield b'{"log":{"version":"1.2","creator":{"name":"django-mcp","version":"1"},"entries":['
    while (page := await aquery(next, pages, None)) is not None:
        if form == "jsonl":
            yield b"".join(orjson.dumps(record(line)) + b"\n" for line in page)
            continue
        if page:
            yield (b"" if first else b",") + b",".join(orjson.dumps(entry(line)) for line in page)
            first = False
    if form == "har":
        yield b"]}}"


def record(line: Line) -> dict[str, Any]:
    """Return one message with all its fields.

    Payloads are decoded from JSON, unless they were truncated.
    """
    return {
        "key": line.key,
        "at": datetime.fromtimestamp(line.at, UTC).isoformat(),
        "session": line.session,
        "principal": line.principal,
        "direction": line.direction,
        "kind": line.kind,
        "method": line.method,
        "request_id": line.request_id,
        "target": line.target,
        "status": line.outcome,
        "refusal": line.refusal,
        "ms": line.ms,
        "process": line.process,
        "message": _value(line.payload),
        "answer": _value(line.answer),
        "incident": line.incident,
        "exception": _value(line.exception or ""),
        "outgoing": _value(line.outgoing or ""),
        "skipped_before": line.skipped,
    }


def entry(line: Line) -> dict[str, Any]:
    """Return one message as a HAR entry. Fields that HAR does not have are in ``_mcp``.

    The log records the time of the answer. The start is therefore computed by subtracting the duration.
    """
    began = datetime.fromtimestamp(line.at - (line.ms or 0) / 1000, UTC)
    facts = record(line)
    for name in ("at", "message", "answer"):
        del facts[name]
    return {
        "startedDateTime": began.isoformat(),
        "time": line.ms or 0,
        "request": _side(line.payload)
        | {"method": "POST" if line.direction == "in" else "SSE", "url": ENDPOINT},
        "response": {
            "status": 200 if line.answer else 202,
            "statusText": line.outcome,
            "content": {"size": len(line.answer), "mimeType": "application/json", "text": line.answer},
            **_EMPTY,
            "redirectURL": "",
        },
        "cache": {},
        "timings": {"send": 0, "wait": line.ms or 0, "receive": 0},
        "_mcp": facts,
    }


_EMPTY: dict[str, Any] = {
    "httpVersion": "HTTP/1.1",
    "headers": [],
    "cookies": [],
    "headersSize": -1,
    "bodySize": -1,
}


def _side(text: str) -> dict[str, Any]:
    return {**_EMPTY, "queryString": [], "postData": {"mimeType": "application/json", "text": text}}


def _value(text: str) -> Any:
    """Return decoded JSON. Other text, and JSON that is nested too deeply to be written again, stays text."""
    try:
        value = orjson.loads(text) if text else None
        if text.count("[") + text.count("{") > DEEP:
            orjson.dumps([[value]])
    except (orjson.JSONDecodeError, UnicodeEncodeError, TypeError):
        return text
    return value
