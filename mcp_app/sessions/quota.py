"""Admission of work that is stored in Redis, limited by a person's quota and by the memory of Redis."""

from __future__ import annotations

import logging
from functools import partial

from mcp_app.conf import Settings
from mcp_app.protocol.errors import McpError, TooManyRequests
from mcp_app.protocol.messages import jsonrpc
from mcp_app.protocol.refusals import Code, refused
from mcp_app.streams.base import ANSWER, QuotaExceeded, StreamsFull
from mcp_app.streams.gateway import Streams, limits_of
from mcp_app.streams.stores import storage_quota

# Seconds after which a refused client may try again. Streams expire one after another, so space becomes free
# gradually.
RETRY_SECONDS = 60
TOO_MUCH = (
    "Too much is kept for you: end sessions you no longer use with DELETE, or wait until older answers and "
    "ended sessions are forgotten. Calls that are answered at once go on."
)
NEARLY_FULL = "The server's Redis is nearly full. Calls that are answered at once go on; try others later."
ANSWER_TOO_LARGE = (
    "The call has ended, but its answer is too large for the room that is left for you: end sessions you no "
    "longer use with DELETE, or wait until older answers are forgotten, and ask for less at once."
)

log = logging.getLogger("mcp.streams")


async def admit(streams: Streams, principal: str) -> None:
    """Check that a principal may store new work in Redis.

    Raises TooManyRequests, Unavailable or StreamsUnavailable.
    """
    try:
        await streams.quota.admit(principal)
    except (QuotaExceeded, StreamsFull) as error:
        raise _refusal(error) from None


def admit_now(settings: Settings, principal: str) -> None:
    """Check the same as ``admit``, from synchronous code."""
    try:
        storage_quota.admit_now(settings.redis_url, limits_of(settings), principal)
    except (QuotaExceeded, StreamsFull) as error:
        raise _refusal(error) from None


async def keep_answer(
    streams: Streams, session: str, stream: str, encoded: bytes, owner: str, *, final: bool = True
) -> None:
    """Append the answer to a request to a stream.

    If a large answer would exceed the quota, a short error with the same request id is appended instead
    (R31). ``final`` marks the last answer of the stream. Raises the errors of ``EventLog``, QuotaExceeded
    apart.
    """
    append = streams.log.finish if final else partial(streams.log.append, kind=ANSWER)
    try:
        await append(session, stream, encoded, owner=owner)
    except QuotaExceeded as error:
        log.warning("An answer of %s bytes was replaced by an error: %s", len(encoded), error)
        await append(session, stream, without_room(encoded), owner=owner)


def without_room(encoded: bytes) -> bytes:
    """Return the encoded error that replaces an answer exceeding the quota."""
    return jsonrpc.encode_error(answer_too_large(), jsonrpc.answered_id(encoded))


def answer_too_large() -> McpError:
    """Return the error for an answer that is too large for the quota."""
    return TooManyRequests(ANSWER_TOO_LARGE, retry_after=RETRY_SECONDS)


def _refusal(error: QuotaExceeded | StreamsFull) -> McpError:
    if isinstance(error, QuotaExceeded):
        return refused(Code.QUOTA_EXCEEDED, TOO_MUCH, RETRY_SECONDS)
    return refused(Code.STORAGE_FULL, NEARLY_FULL, RETRY_SECONDS)
