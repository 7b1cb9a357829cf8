"""Requests whose client cancelled them and is not to be answered (CAN-02), known to every process."""

from __future__ import annotations

import hashlib
from typing import Final

import orjson

from mcp_app.protocol.errors import RequestCancelled
from mcp_app.streams.base import StreamsError
from mcp_app.streams.gateway import Streams

# Longer than an unwilling call takes to end; not for long, for a client may name any ids.
SECONDS: Final = 60
ERROR: Final = b'"error":{"code":%d,' % RequestCancelled.code
LONGEST_HEAD: Final = 300


async def note(streams: Streams, session_id: str, request_id: object) -> None:
    """Note that a client wants no answer to a request any more, before anything is stopped.

    When that cannot be noted, the request is answered as cancelled.
    """
    if type(request_id) in (str, int):
        try:
            await streams.requests.open(session_id, _name(request_id), SECONDS)
        except StreamsError:
            return


async def covers(streams: Streams, session_id: str, message: bytes) -> bool:
    """Whether a message only says that a request was cancelled, to the client that cancelled it."""
    if ERROR not in message[:LONGEST_HEAD]:
        return False
    name = _name(orjson.loads(message).get("id"))
    try:
        first = await streams.requests.answer(session_id, name, b"")
        # A client that resumes the stream comes to the same place again.
        return first or await streams.requests.wait(session_id, name, 0) is not None
    except StreamsError:
        return False


def _name(request_id: object) -> str:
    return f"silenced-{hashlib.sha256(orjson.dumps(request_id)).hexdigest()[:40]}"
