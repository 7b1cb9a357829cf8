"""Repeated request ids: they may repeat a stored call or belong to a new one (R7)."""

from __future__ import annotations

import asyncio
from time import monotonic
from uuid import UUID

from mcp_app.database.queries import aquery_soon
from mcp_app.execution.background.id_batch import Delivered
from mcp_app.execution.stored import call_record, request_ids
from mcp_app.execution.stored.call_record import CallRecord, NewCall
from mcp_app.protocol.errors import InvalidRequest

# After an answer was sent, it takes a moment until its request id is free. A client that uses the id again
# in another process within that time must not be treated as a client that lost its answer.
SETTLE_SECONDS = 2.0
POLL_SECONDS = 0.1


class RepeatedRequests:
    """The request ids of one web process's calls, each in use until its answer has been delivered."""

    def __init__(self, kept_seconds: float) -> None:
        """Create the registry. An undelivered answer is available for a retry for ``kept_seconds``."""
        self._kept_seconds = kept_seconds
        self._delivered = Delivered()

    def answered(self, call_id: UUID | None) -> None:
        """Free the request id of an answered call with the next batch."""
        if call_id is not None:
            self._delivered.add(call_id)

    async def flush(self) -> None:
        """Free the ids of all answered calls now."""
        await self._delivered.flush()

    async def repeated(self, new: NewCall) -> CallRecord | None:
        """Return the call that a request repeats, or None if its request id is free.

        A recent answer may take a moment to free its id, and this waits for that. Raise InvalidRequest if
        another call with this id has no answer yet. Raise DatabaseError.
        """
        until = monotonic() + SETTLE_SECONDS
        while True:
            await self.flush()
            call = await aquery_soon(request_ids.find_request, new.session_id, new.request_id)
            if call is None:
                return None
            if call.digest != call_record.digest(new.tool, new.arguments):
                _check_in_flight(call)
                await aquery_soon(request_ids.release_requests, call.id)
                return None
            # A client that queries a task by its id has received the answer to the request.
            if not call.is_finished or call.is_task or monotonic() >= until:
                outlived = await aquery_soon(request_ids.release_undelivered, call.id, self._kept_seconds)
                return None if outlived else call
            await asyncio.sleep(POLL_SECONDS)


def _check_in_flight(call: CallRecord) -> None:
    """Raise InvalidRequest if the request of ``call`` still awaits its answer.

    Requests answered by a task do not.
    """
    if not call.is_finished and not call.is_task:
        words = f"Request id {call.request_id!r} is still in flight in this session, for another call."
        raise InvalidRequest(words, http_status=200)
