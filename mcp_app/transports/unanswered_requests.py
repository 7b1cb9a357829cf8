"""Requests whose clients cancelled them and expect no answer (CAN-02), known to every process."""

from __future__ import annotations

import hashlib
from typing import Final

import orjson

from mcp_app.protocol.errors import RequestCancelled
from mcp_app.streams.base import StreamsError
from mcp_app.streams.gateway import Streams

# The lifetime of a record. It must exceed the time that an unresponsive call takes to end, but it is short,
# because clients may send any number of ids.
SECONDS: Final = 60
ERROR: Final = b'"error":{"code":%d,' % RequestCancelled.code
LONGEST_HEAD: Final = 300


async def record(streams: Streams, session_id: str, request_id: object) -> None:
    """Record that a client expects no answer to a request, before the request is stopped.

    If Redis cannot store the record, the client receives an answer that the request was cancelled.
    """
    if type(request_id) in (str, int):
        try:
            await streams.requests.open(session_id, _name(request_id), SECONDS)
        except StreamsError:
            return


async def covers(streams: Streams, session_id: str, message: bytes) -> bool:
    """Return True if a message reports the cancellation of a request to the client that cancelled it."""
    if ERROR not in message[:LONGEST_HEAD]:
        return False
    name = _name(orjson.loads(message).get("id"))
    try:
        first = await streams.requests.answer(session_id, name, b"")
        # A client that resumes the stream gets the same message again, so a second look must also succeed.
        return first or await streams.requests.wait(session_id, name, 0) is not None
    except StreamsError:
        return False


def _name(request_id: object) -> str:
    return f"silenced-{hashlib.sha256(orjson.dumps(request_id)).hexdigest()[:40]}"
