"""The reply of one attempt of a background call: it writes the call's event stream and row under the fence.

The outcome is first stored in the database and then appended to the stream. If the process dies in between,
the reaper publishes the answer from the row (R1, R4).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from django.db import DatabaseError

from mcp_app.database.queries import aquery
from mcp_app.execution.background import core_tasks
from mcp_app.execution.background.answer_streams import announce_task, append_answer
from mcp_app.execution.background.id_batch import Published
from mcp_app.execution.calls import failpoints
from mcp_app.execution.calls.load_shedding import Shed
from mcp_app.execution.calls.reply import Lost
from mcp_app.execution.questions import open_questions
from mcp_app.execution.questions.inputs import Inputs
from mcp_app.execution.stored import records, stored_answers, task_records
from mcp_app.execution.stored.call_record import CallRecord
from mcp_app.message_log.log import MessageLog
from mcp_app.protocol.call_state import State
from mcp_app.sessions.client_requests import CANNOT_ASK
from mcp_app.streams.base import MESSAGE, StreamFinished, StreamsError
from mcp_app.streams.gateway import Streams

STORE_SECONDS = 60.0
STORE_PAUSE = 0.5
# The outcome of an attempt that ends with questions to its client.
ASKED = "asked"
STATES = {
    "ok": State.COMPLETED,
    "tool_error": State.COMPLETED,
    "error": State.FAILED,
    "cancelled": State.CANCELLED,
    ASKED: State.COMPLETED,
}

log = logging.getLogger("mcp.worker")


class AttemptReply:
    """The destination of an attempt's messages and answer, as ``Reply`` is in a web process."""

    def __init__(
        self,
        streams: Streams,
        call: CallRecord,
        published: Published,
        inputs: Inputs | None = None,
        message_log: MessageLog | None = None,
    ) -> None:
        """Create a reply. ``inputs`` are the inputs of the attempt.

        Questions that the attempt sends are logged in ``message_log``.
        """
        self._inputs = inputs
        self._message_log = message_log
        self._streams = streams
        self._call = call
        self._store = partial(
            streams.log.append, call.session_id, call.stream, fence=call.attempt, owner=call.principal
        )
        self._published = published
        self._outbox: deque[tuple[str, bytes, Lost | None]] = deque()
        self._shed = Shed()
        self._pump: asyncio.Task[None] | None = None
        self._answered: asyncio.Task[bool] | None = None
        self.abandoned = False

    def send(self, encoded: bytes, kind: str = "message", lost: Lost | None = None) -> None:
        """Send a notification or question to the client. Drop it if the attempt has lost its call."""
        if self.abandoned or self._answered is not None:
            return
        self._outbox.append((kind, encoded, lost))
        if self._pump is None:
            self._pump = asyncio.create_task(self._run_pump())

    def answer(self, encoded: bytes, outcome: str = "ok") -> None:
        """Store and publish the answer.

        An abandoned attempt stores it as well. If the session has ended, no newer attempt exists, and the row
        would otherwise stay unfinished until its lease expires. A newer attempt is protected by its number.
        """
        if self._answered is None:
            self._answered = asyncio.create_task(self._finish(encoded, outcome))

    async def done(self) -> bool:
        """Wait until everything is stored.

        Return True if this attempt's answer became the answer of the call.
        """
        return self._answered is not None and await self._answered

    async def _run_pump(self) -> None:
        try:
            while self._outbox and not self.abandoned:
                await self._append(*self._outbox.popleft())
        finally:
            self._pump = None

    async def _append(self, kind: str, encoded: bytes, lost: Lost | None) -> None:
        call = self._call
        failpoints.reach("before-append")
        try:
            if self._shed.count:
                await self._report_shed()
            await self._store(encoded, kind=kind)
        except StreamFinished:
            self.abandoned = True  # A newer attempt writes this stream, or the session has ended.
        except StreamsError:
            if lost is not None:
                lost(CANNOT_ASK)
                return
            self._shed.count_dropped(encoded)
            log.warning(
                "A notification of call %s was dropped because its stream could not be written", call.id
            )
        if call.is_core_task and kind == MESSAGE and not self.abandoned:
            # PROG-06: the request that created the task has been answered, but its session continues.
            await core_tasks.send_to_session(self._streams, call, encoded)

    async def _report_shed(self) -> None:
        await self._shed.report(stored_answers.session_of(self._call), self._store)

    async def _finish(self, encoded: bytes, outcome: str) -> bool:
        if self._pump is not None:
            await asyncio.wait((self._pump,))
        failpoints.reach("before-store")
        call = self._call
        if outcome == ASKED and call.is_task:
            if await self._suspend():
                return True
            # The task was cancelled meanwhile, or another attempt already runs it.
            encoded, outcome = stored_answers.cancelled(call), "cancelled"
        if not await self._stored(records.finish, call.id, call.attempt, STATES[outcome], outcome, encoded):
            self.abandoned = True
            return False
        failpoints.reach("after-store")
        if self._shed.count:
            with suppress(StreamsError):
                await self._report_shed()
        if await append_answer(self._streams, call, encoded):
            self._published.add(call.id)
        return True

    async def _suspend(self) -> bool:
        """Store the questions of a task. Return False if the task must not wait for its client any more."""
        call = self._call
        assert self._inputs is not None
        kept = open_questions.asked(self._inputs, call.inputs)
        if not await self._stored(task_records.suspend, call.id, call.attempt, kept):
            return False
        failpoints.reach("after-store")
        if call.is_core_task:
            await self._send_questions()
        await announce_task(self._streams, call)
        return True

    async def _send_questions(self) -> None:
        """Send the questions to the requests that wait for the task (TASK4-05).

        If that fails, a client gets the questions when it next requests the result.
        """
        try:
            await core_tasks.answer_waits(self._streams, self._call.id, self._message_log)
        except (DatabaseError, StreamsError) as error:
            log.warning("The questions of task %s were not sent: %s", self._call.id, error)

    async def _stored(self, change: Callable[..., bool], *values: Any) -> bool:
        """Store a change, and retry during a short outage of the database (R15)."""
        call = self._call
        deadline = asyncio.get_running_loop().time() + STORE_SECONDS
        while True:
            try:
                return await aquery(change, *values)
            except DatabaseError as error:
                if asyncio.get_running_loop().time() > deadline:
                    log.error("The outcome of call %s could not be stored: %s", call.id, error)  # noqa: TRY400
                    return False
                await asyncio.sleep(STORE_PAUSE)
