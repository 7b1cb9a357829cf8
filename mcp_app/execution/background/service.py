"""A web process's side of background calls: accept, attach, cancel, give back a lost answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from django.db import DatabaseError

from mcp_app.conf import Settings
from mcp_app.database.queries import T, aquery, aquery_soon
from mcp_app.execution.admission.checks import unavailable
from mcp_app.execution.admission.gate import CallGate
from mcp_app.execution.background import approval, core_tasks
from mcp_app.execution.background.answer_streams import publish, tell_of_task
from mcp_app.execution.background.celery import hand_on_new
from mcp_app.execution.background.ended_notes import CANCELLED, note_ended
from mcp_app.execution.background.new_jobs import NewJobs
from mcp_app.execution.background.repeated_requests import RepeatedRequests
from mcp_app.execution.background.task_results import TaskResults
from mcp_app.execution.background.waiting_notes import WaitingNotes
from mcp_app.execution.calls import failpoints
from mcp_app.execution.questions.inputs import Inputs
from mcp_app.execution.questions.request_state import spend
from mcp_app.execution.stored import (
    call_record,
    client_tasks,
    pending_approvals,
    records,
    stored_answers,
    task_records,
)
from mcp_app.execution.stored.call_record import PREFIX, CallRecord, NewCall
from mcp_app.execution.stored.task_waits import PREFIX as WAIT
from mcp_app.message_log.log import MessageLog
from mcp_app.protocol.call_state import UNSTARTED
from mcp_app.protocol.errors import InvalidRequest, McpError, TooManyRequests, Unavailable
from mcp_app.protocol.features.tasks import Task
from mcp_app.protocol.messages import jsonrpc
from mcp_app.sessions.session import HAD_CALLS
from mcp_app.streams.base import Position, StreamsError, StreamsUnavailable
from mcp_app.streams.gateway import Streams

log = logging.getLogger("mcp.background")


class Background:
    """Accepts background calls of one web process; holds nothing, everything is stored."""

    def __init__(self, streams: Streams, settings: Settings, message_log: MessageLog | None = None) -> None:
        self._streams, self._message_log = streams, message_log
        self._settings = settings
        # Without Redis there is no broker and no worker: everything runs in this process.
        self.available = bool(settings.redis_url)
        self._jobs = NewJobs(streams, settings.redis_url or "")
        self.results = TaskResults(streams, message_log)
        self.waiting = WaitingNotes()
        self._repeats = RepeatedRequests(settings.stream_ttl_seconds)
        self.gate = CallGate(streams, settings)

    async def accept(self, new: NewCall, inputs: Inputs | None = None) -> tuple[CallRecord, Position]:
        """Accept a call; returns it and the position in its stream to follow from.

        The stream is made first, so that the row's commit is the one moment of acceptance, and the job is
        queued after it: a job without a row cannot exist, a row without a job is found by the reaper. A call
        that waits for approval gets no job here. A retry attaches to its call (R7), also where the gate takes
        no more. What of ``inputs`` is good for one call is spent once the gate has let it through. Raises
        InvalidRequest when other work under the same id is in flight, the refusals of the gate, and
        StreamsUnavailable.
        """
        try:
            for check in self.gate.queued:
                if check.concerns(new):
                    await check.soon(new)
        except McpError:
            present = await _stored(self._repeats.repeated(new))
            if present is None:
                raise
            return present, await self.restore(present)
        if inputs is not None:
            await spend(self._streams, inputs, self._settings)
        position = await self._streams.log.open(
            new.session_id, new.stream, owner=new.principal, session_fields={HAD_CALLS: "1"}
        )
        hand_on = partial(self._jobs.hand_on, asyncio.get_running_loop())
        is_new, present = False, None
        try:
            while not is_new and present is None:
                call, is_new = await aquery_soon(_accept, new, self._settings, hand_on)
                if not is_new:
                    present = await self._repeats.repeated(new)
        except DatabaseError as error:
            log.warning("A call was not accepted: %s", error)
            raise unavailable() from error
        except (InvalidRequest, TooManyRequests):
            await self._streams.log.drop(new.session_id, new.stream)
            raise
        if present is not None:
            await self._streams.log.drop(new.session_id, new.stream)
            return present, await self.restore(present)
        if call.waits_for_approval:
            await approval.tell(self._streams, call, pending_approvals.waiting_words(call))
        return call, position

    def delivered(self, stream: str) -> None:
        """Note that a client was sent a stream to its end: if it is a call's, its request id is free (R7)."""
        self._repeats.answered(call_record.id_of(stream))

    async def close(self) -> None:
        """Store what is noted only."""
        await self._repeats.flush()

    async def answer(self, call: CallRecord, start: Position, seconds: float) -> bytes:
        """The answer of a call that is over within ``seconds``, else nothing."""
        reader = self._streams.reader(call.session_id, call.stream, start.epoch, start.offset)
        try:
            async with asyncio.timeout(seconds):
                while True:
                    for event in await reader.next(seconds):
                        if event.kind == "final":
                            return event.data
        except (TimeoutError, StreamsError):
            return b""
        finally:
            reader.close()

    async def task(
        self, task_id: str, principal: str, *, core: bool = False
    ) -> tuple[Task, CallRecord] | None:
        """Find a task for its client, which thereby shows that it was answered (R7); raises Unavailable."""
        found = await _stored(aquery_soon(client_tasks.find, task_id, principal, core=core))
        if found is not None and not found[1].is_answered:
            self._repeats.answered(found[1].id)
        return found

    async def seen_task(self, task_id: str) -> Task | None:
        """See ``client_tasks.seen``; raises Unavailable."""
        return await _stored(aquery_soon(client_tasks.seen, task_id))

    async def task_page(self, principal: str, after: tuple[datetime, UUID] | None, size: int) -> list[Task]:
        """See ``client_tasks.page``; raises Unavailable."""
        return await _stored(aquery_soon(client_tasks.page, principal, after, size))

    async def answer_task(self, call: CallRecord, responses: dict[str, dict[str, Any]]) -> bool:
        """Take answers to what a task asked; what answers nothing is ignored: False. Raises Unavailable."""
        changed = await _stored(aquery_soon(_answer_task, call.id, responses))
        if changed is not None:
            await tell_of_task(self._streams, changed)
        return changed is not None

    async def answer_core_task(self, session_id: str, response: jsonrpc.Response) -> bool | None:
        """As ``answer_task``, by a client's response; None for one to a question of no task."""
        asked = core_tasks.asked_by(response.id)
        if asked is None:
            return None
        stream, name = asked
        call = await _stored(self.results.asked_on(session_id, stream))
        answers = {name: core_tasks.taken(response)}
        if call is None or not await _stored(self.answer_task(call, answers)):
            return False
        await _stored(core_tasks.withdraw(self._streams, call, stream, name))
        return True

    async def wait_for_task(
        self, call: CallRecord, session_id: str, request_id: str | int
    ) -> tuple[str, Position]:
        """See ``TaskResults.begin``; raises Unavailable."""
        return await _stored(self.results.begin(call, session_id, request_id))

    async def end_task(self, call: CallRecord, reason: str) -> bool:
        """End a core task as cancelled, whatever its worker does; False when it is over (TASK4-07)."""
        encoded = stored_answers.cancelled(call)
        if not await _stored(aquery_soon(records.end_cancelled, call.id, encoded, reason)):
            return False
        if _is_idle(call):
            self._note_cancelled(call, encoded)
        await self._stop_worker(call, reason)
        # What cannot be said now is by a later sweep.
        with suppress(DatabaseError):
            await publish(self._streams, call, encoded)
        return True

    async def cancel_call(self, call_id: UUID, reason: str) -> None:
        """Stop a call by its id, as ``cancel`` does; nothing happens when it is over. Raises Unavailable."""
        call = await _stored(aquery_soon(records.request_cancel_of, call_id, reason))
        if call is not None:
            await self._stop(call, reason)

    async def restore(self, call: CallRecord) -> Position:
        """The beginning of a call's stream, made again with the stored answer if Redis has lost it (R12)."""
        position = await self._streams.log.open(call.session_id, call.stream, owner=call.principal)
        if call.is_over:
            # Also where a stream is: a Redis that was set back in time has one without its end.
            await publish(self._streams, call, call.answer)
        return Position(position.epoch, 0)

    async def lost_stream(self, session_id: str, stream: str) -> tuple[str, Position] | None:
        """A stream that is no longer in Redis but belongs to a stored call, or waits for one; else None."""
        if stream.startswith(WAIT):
            return await _stored(self.results.restore(session_id, stream))
        if not stream.startswith(PREFIX):
            return None
        call = await _stored(aquery_soon(records.find_by_stream, session_id, stream))
        return None if call is None else (call.stream, await self.restore(call))

    async def complete(self, session_id: str, stream: str) -> bool:
        """Give a stream that Redis has the answer it may lack; False when it is no background call's.

        While the database is away the stream has to do as it is.
        """
        if not stream.startswith((PREFIX, WAIT)):
            return False
        with suppress(Unavailable):
            return await self.lost_stream(session_id, stream) is not None
        return True

    async def cancel(self, session_id: str, request_id: str | int, reason: str) -> bool:
        """Stop a call wherever it is, waiting or running in some worker (R8); False when there is none.

        False, too, while the database cannot be asked: then a broadcast is all that can be done.
        """
        if not self.available or not await self._had_calls(session_id):
            return False
        try:
            call = await aquery_soon(records.request_cancel, session_id, request_id, reason)
            if call is None:
                return await self.results.give_up(session_id, request_id)
        except DatabaseError as error:
            log.warning("A cancel was not stored: %s", error)
            return False
        await self._stop(call, reason)
        self._repeats.answered(call.id)  # CAN-02: its client awaits no answer.
        return True

    async def cancel_session(self, session_id: str, reason: str) -> None:
        """Stop every call of a session that ends (SES-07)."""
        if not self.available:
            return
        for call in await aquery(records.open_calls, session_id):
            await self.cancel(session_id, call.request_id, reason)

    async def _had_calls(self, session_id: str) -> bool:
        """Whether to ask the database at all; sessions come and go much more often than calls."""
        try:
            fields = await self._streams.sessions.load(session_id)
        except StreamsUnavailable:
            return True
        return fields is None or HAD_CALLS in fields

    async def _stop(self, call: CallRecord, reason: str) -> None:
        if not await self._end_idle(call):
            await self._stop_worker(call, reason)

    async def _stop_worker(self, call: CallRecord, reason: str) -> None:
        try:
            await self._streams.hub.publish("cancel", call_record.cancel_news(call, reason))
        except StreamsError:
            log.warning("The cancel of call %s is left to its worker's next look at the row", call.id)

    async def _end_idle(self, call: CallRecord) -> bool:
        """A call that no worker works on is over at once; its job finds nothing to do."""
        if not _is_idle(call):
            return False
        answer = stored_answers.cancelled(call)
        ended = await aquery(records.cancel_idle, call, answer)
        if ended:
            self._note_cancelled(call, answer)
            await publish(self._streams, call, answer)
        return ended

    def _note_cancelled(self, call: CallRecord, answer: bytes) -> None:
        if self._message_log is not None:
            note_ended(self._message_log, [(call, answer, CANCELLED)])


def _is_idle(call: CallRecord) -> bool:
    """No worker works on the call, so that none would end it and note its end."""
    return call.state in UNSTARTED or call.is_suspended


def _accept(
    new: NewCall, settings: Settings, hand_on: Callable[[CallRecord], None]
) -> tuple[CallRecord, bool]:
    """Store the call and have its job queued; returns it and whether it is new."""
    if new.approval_minutes is None:
        call, is_new = records.accept(new)
    else:
        call, is_new = pending_approvals.accept(new, settings.max_waiting_approvals_per_principal)
    if is_new:
        failpoints.reach("after-accept")
        if not call.waits_for_approval:
            hand_on(call)
    return call, is_new


def _answer_task(call_id: UUID, responses: dict[str, dict[str, Any]]) -> CallRecord | None:
    changed = task_records.answer(call_id, responses)
    if changed is None:
        return None
    call, goes_on = changed
    if goes_on:
        hand_on_new(call)
    return call


async def _stored(work: Awaitable[T]) -> T:
    """What ``work`` returns, which needs the database; raises Unavailable while that is away.

    What may be refused is refused soon (``aquery_soon``, R15); accepted work waits longer.
    """
    try:
        return await work
    except DatabaseError as error:
        raise unavailable() from error
