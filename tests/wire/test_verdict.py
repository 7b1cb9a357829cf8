"""The verdict on a recording detects members unpublished in a session's revision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.wire.recorder import STDIO, Asked, Exchange, Recorder
from tests.wire.verdict import count, problems

TITLED = {"tools": [{"name": "t", "title": "T", "inputSchema": {"type": "object"}}]}
Told = list[tuple[str, str | None, Asked, Any]]


def answer(result: Any, number: Any = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "result": result}


def failure(**members: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", **members, "error": {"code": -32700, "message": "No."}}


def opening(speaker: str, version: str) -> Told:
    info = {"name": "s", "version": "1"}
    result = {"protocolVersion": version, "capabilities": {}, "serverInfo": info}
    return [(speaker, None, [(0, "initialize")], None), (speaker, None, [], answer(result, 0))]


def listed(speaker: str, result: Any = TITLED) -> Told:
    return [(speaker, None, [(1, "tools/list")], None), (speaker, None, [], answer(result))]


@pytest.mark.parametrize(
    ("told", "fault"),
    [
        (opening("s", "2025-06-18") + listed("s"), ""),
        (opening("s", "2025-03-26") + listed("s"), "title is not published"),
        # The session's revision applies, even if another session speaks.
        (opening("other", "2025-03-26") + opening("s", "2025-06-18") + listed("s"), ""),
        # A session without a revision takes that of the message.
        ([("m", "2026-07-28", [(1, "tools/list")], None), ("m", "2026-07-28", [], answer(TITLED))], "ttlMs"),
        ([("s", None, [], answer({}))], ""),
        ([("s", None, [(1, "ping"), (1, "tools/list")], None), ("s", None, [], answer({}))], ""),
        ([("s", None, [("1", "ping")], None), ("s", None, [], answer({}))], ""),
        ([("s", None, [(1, "x/y")], None), ("s", None, [], answer({}))], "no published result"),
        ([("s", None, [(1, "ping"), (2, "ping")], None), ("s", None, [], [answer({}), answer({}, 2)])], ""),
        ([("s", None, [], {"jsonrpc": "2.0", "method": "notifications/made/up"})], "is not published"),
        ([*opening("s", "2025-03-26"), ("s", None, [], failure())], ""),
        ([*opening("s", "2025-03-26"), ("s", None, [], failure(id=None))], "is null"),
        ([*opening(STDIO, "2025-03-26"), (STDIO, None, [], failure(id=None))], ""),
        ([*opening(STDIO, "2025-11-25"), (STDIO, None, [], failure(id=None))], "is null"),
        ([("s", None, [], "words")], "not a message"),
    ],
)
def test_message_is_validated_by_revision_of_its_session(tmp_path: Path, told: Told, fault: str) -> None:
    recorder = Recorder(tmp_path)
    for speaker, revision, asked, said in told:
        recorder.write(speaker, revision, asked, b"" if said is None else orjson.dumps(said))
    found = problems(tmp_path)
    assert bool(found) == bool(fault), found
    assert fault in " ".join(found)


def test_invalid_json_is_reported_and_partial_line_is_skipped(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.write("s", None, [], b'{"jsonrpc":\n"2.0"')
    (file,) = tmp_path.glob("*.lines")
    with file.open("ab") as lines:
        lines.write(b'["s",nul')
    assert "not a message" in " ".join(problems(tmp_path))
    assert count(tmp_path) == {"2025-11-25": 1}


def test_exchange_records_request_and_response_with_session(tmp_path: Path) -> None:
    headers = [(b"Mcp-Session-Id", b"abc")]
    exchange = Exchange(Recorder(tmp_path), {"headers": headers})
    asked = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    exchange.heard({"type": "http.request", "body": orjson.dumps(asked)[:10], "more_body": True})
    exchange.heard({"type": "http.request", "body": orjson.dumps(asked)[10:]})
    exchange.said({"type": "http.response.start", "headers": [(b"content-type", b"text/event-stream")]})
    event = b"id: 1\ndata: " + orjson.dumps(answer({"pong": True})) + b"\n\n: quiet\n\n"
    for piece in (event[:20], event[20:]):
        exchange.said({"type": "http.response.body", "body": piece, "more_body": True})
    (found,) = problems(tmp_path)
    assert "ping has an empty result" in found
