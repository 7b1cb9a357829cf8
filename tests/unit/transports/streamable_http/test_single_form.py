"""Answers in the single form that a client accepts."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import pytest

from mcp_app.protocol.http import sse
from mcp_app.transports.streamable_http import single_form
from mcp_app.transports.streamable_http.single_form import EVENT_STREAM, AsJson, AsStream


class Sent:
    """Recorded ASGI messages."""

    def __init__(self) -> None:
        self.status, self.body = 0, b""
        self.headers: dict[bytes, bytes] = {}

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], dict(message["headers"])
        else:
            self.body += message["body"]


async def stream(send: Any, *events: bytes, ends: bool = True) -> None:
    """Send an event stream; the session id is among its headers."""
    headers = [EVENT_STREAM, (b"mcp-session-id", b"s")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    for event in events:
        await send({"type": "http.response.body", "body": event, "more_body": True})
    if ends:
        await send({"type": "http.response.body", "body": b"", "more_body": False})


ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{}}'
PROGRESS = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{}}'


@pytest.mark.parametrize(
    ("events", "batch", "status", "body"),
    [
        ([sse.KEEP_ALIVE, sse.encode_event(PROGRESS), sse.encode_event(ANSWER, "id-1")], False, 200, ANSWER),
        ([sse.encode_event(ANSWER) + sse.encode_event(ANSWER)], True, 200, b"[%b,%b]" % (ANSWER, ANSWER)),
        ([sse.encode_priming("id-0"), sse.encode_retry(10)], False, 503, b"Send the request again"),
    ],
    ids=["one", "batch", "truncated"],
)
async def test_stream_responses_become_one_json_body(
    events: list[bytes], batch: bool, status: int, body: bytes
) -> None:
    sent = Sent()
    await stream(AsJson(sent, batch=batch), *events)
    assert (sent.status, sent.headers[b"content-type"]) == (status, b"application/json")
    assert sent.headers[b"mcp-session-id"] == b"s"
    assert body in sent.body


async def test_oversized_stream_responses_are_dropped_and_return_406(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(single_form, "MOST_BYTES", len(ANSWER))
    sent = Sent()
    wrapped = AsJson(sent, batch=True)
    await stream(wrapped, sse.encode_event(ANSWER), sse.encode_event(ANSWER), ends=False)
    assert not wrapped._responses
    await wrapped({"type": "http.response.body", "body": b"", "more_body": False})
    assert sent.status == 406
    assert b"text/event-stream" in sent.body


async def test_json_body_becomes_stream_of_one_event() -> None:
    sent = Sent()
    wrapped = AsStream(sent)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"9")]
    await wrapped({"type": "http.response.start", "status": 200, "headers": headers})
    await wrapped({"type": "http.response.body", "body": ANSWER})
    assert sent.headers == {b"content-type": b"text/event-stream"}
    assert sent.body == sse.encode_event(ANSWER)
