"""The ``tasks/result`` requests that wait in a web process: starting, ending and restoring their waits."""

from __future__ import annotations

import secrets

from mcp_app.database.queries import aquery
from mcp_app.execution.background import core_tasks
from mcp_app.execution.stored import records, task_waits
from mcp_app.execution.stored.call_record import CallRecord
from mcp_app.execution.stored.task_waits import Wait
from mcp_app.message_log.log import MessageLog
from mcp_app.sessions.quota import admit
from mcp_app.sessions.session import HAD_CALLS
from mcp_app.streams.base import Position
from mcp_app.streams.gateway import Streams


class TaskResults:
    """The ``tasks/result`` requests of a web process. They are stored, so this object has no state.

    Every method may raise DatabaseError or StreamsError.
    """

    def __init__(self, streams: Streams, message_log: MessageLog | None = None) -> None:
        self._streams = streams
        self._message_log = message_log

    async def begin(self, call: CallRecord, session_id: str, request_id: str | int) -> tuple[str, Position]:
        """Start a wait for a task, and return the stream that will carry the answer, and its start.

        The wait is stored before the task is read, so that the end of the task cannot be missed. Raise the
        errors of ``admit``.
        """
        await admit(self._streams, call.principal)
        wait = Wait(call.id, session_id, request_id, task_waits.PREFIX + secrets.token_hex(9))
        position = await self._streams.log.open(session_id, wait.stream, session_fields={HAD_CALLS: "1"})
        for given_up in await aquery(task_waits.begin, wait):
            await core_tasks.end(self._streams, given_up)
        await core_tasks.answer_waits(self._streams, call.id, self._message_log)
        return wait.stream, position

    async def give_up(self, session_id: str, request_id: str | int) -> bool:
        """End the wait of a client that cancelled its request. The task continues (CAN-09).

        Return False if there was no wait.
        """
        found = await aquery(task_waits.give_up, session_id, request_id)
        for wait in found:
            await core_tasks.end(self._streams, wait)
        return bool(found)

    async def restore(self, session_id: str, stream: str) -> tuple[str, Position] | None:
        """Restore a wait's stream, which Redis may have lost, with the task's current state (R12)."""
        wait = await aquery(task_waits.find, session_id, stream)
        if wait is None:
            return None
        position = await self._streams.log.open(session_id, stream)
        await core_tasks.answer_waits(self._streams, wait.call_id, self._message_log)
        return stream, Position(position.epoch, 0)

    async def asked_on(self, session_id: str, stream: str) -> CallRecord | None:
        """Return the task whose questions are sent on this stream of a session, or None."""
        wait = await aquery(task_waits.find, session_id, stream)
        return None if wait is None else await aquery(records.find, wait.call_id)
