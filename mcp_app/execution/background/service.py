"""Background calls in a web process: accept, attach to and cancel calls, and restore lost answers."""

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

from mcp_app.catalogue.sources.upstream import left
from mcp_app.conf import Settings
from mcp_app.database.queries import T, aquery, aquery_soon
from mcp_app.execution.admission.checks import unavailable
from mcp_app.execution.admission.gate import CallGate
from mcp_app.execution.background import approval, core_tasks
from mcp_app.execution.background.answer_streams import announce_task, publish
from mcp_app.execution.background.celery import enqueue_new
from mcp_app.execution.background.ended_log import CANCELLED, log_exchanges
from mcp_app.execution.background.new_jobs import NewJobs
from mcp_app.execution.background.repeated_requests import RepeatedRequests
from mcp_app.execution.background.task_results import TaskResults
from mcp_app.execution.background.waiting_log import WaitingLog
from mcp_app.execution.calls import failpoints
from mcp_app.execution.keyed import rows as keyed_calls
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
from mcp_app.upstreams.exchanges import later

log = logging.getLogger("mcp.background")


class Background:
    """The background calls of one web process.

    They are all stored, so this object is stateless.
    """

    def __init__(self, streams: Streams, settings: Settings, message_log: MessageLog | None = None) -> None:
        self._streams, self._message_log = streams, message_log
        self._settings = settings
        # Without Redis there is no broker and no worker, so everything runs in this process.
        self.available = bool(settings.redis_url)
        self._jobs = NewJobs(streams, settings.redis_url or "")
        self.results = TaskResults(streams, message_log)
        self.waiting = WaitingLog()
        self._repeats = RepeatedRequests(settings.stream_ttl_seconds)
        self.gate = CallGate(streams, settings)

    async def accept(self, new: NewCall, inputs: Inputs | None = None) -> tuple[CallRecord, Position]:
        """Accept a call, and return it with the position from which to follow its stream.

        The stream is created before the row, and the job is queued after it: the commit of the row is the
        moment of acceptance. There is never a job without a row, and the reaper finds rows without a job. A
        call that waits for approval gets no job here.

        A retry attaches to its call (R7), even if the gate admits no new calls. The single-use parts of
        ``inputs`` are used up once the gate has admitted the call. Raise InvalidRequest if another call
        with this request id has no answer yet. Raise the errors of the gate and StreamsUnavailable.
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
        enqueue = partial(self._jobs.enqueue, asyncio.get_running_loop())
        is_new, present = False, None
        try:
            try:
                if inputs is not None:
                    await spend(self._streams, inputs, self._settings)
                position = await self._streams.log.open(
                    new.session_id, new.stream, owner=new.principal, session_fields={HAD_CALLS: "1"}
                )
            except asyncio.CancelledError:
                # A later cancellation does not stop the thread that stores the row.
                await self.gate.limiter.give_back(new.ticket)
                raise
            while not is_new and present is None:
                call, is_new = await aquery_soon(_accept, new, self._settings, enqueue)
                if not is_new:
                    present = await self._repeats.repeated(new)
        except (DatabaseError, McpError, StreamsError) as error:
            await self._withdraw(new, error)
            raise
        if present is not None:
            await self.gate.limiter.give_back(new.ticket)
            await self._streams.log.drop(new.session_id, new.stream)
            return present, await self.restore(present)
        if call.waits_for_approval:
            await approval.notify(self._streams, call, pending_approvals.waiting_words(call))
        return call, position

    async def _withdraw(self, new: NewCall, error: Exception) -> None:
        """Uncount a call that was admitted and is not accepted. Raise Unavailable if the database failed."""
        await self.gate.limiter.give_back(new.ticket)
        if isinstance(error, DatabaseError):
            log.warning("A call could not be accepted: %s", error)
            raise unavailable() from error
        if isinstance(error, InvalidRequest | TooManyRequests):
            await self._streams.log.drop(new.session_id, new.stream)

    def delivered(self, stream: str) -> None:
        """Free the request id of a call whose stream was sent completely (R7).

        Ignore streams without a call.
        """
        self._repeats.answered(call_record.id_of(stream))

    async def close(self) -> None:
        """Free the request ids of answered calls now."""
        await self._repeats.flush()

    async def answer(self, call: CallRecord, start: Position, seconds: float) -> bytes:
        """Return the answer of a call, or ``b""`` if the call does not finish within ``seconds``."""
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
        self, task_id: str, principal: str, path: str, *, core: bool = False
    ) -> tuple[Task, CallRecord] | None:
        """Return a task to its client. Raise Unavailable.

        By querying a core task, the client confirms that it received the answer to its request, so the
        request id is freed (R7). Requests of 2026-07-28 have no session in which an id could be reused.
        """
        found = await _stored(aquery_soon(client_tasks.find, task_id, principal, path, core=core))
        if core and found is not None and not found[1].is_answered:
            self._repeats.answered(found[1].id)
        return found

    async def read_task(self, task_id: str) -> Task | None:
        """Return a task by id, as ``client_tasks.seen``. Raise Unavailable."""
        return await _stored(aquery_soon(client_tasks.load, task_id))

    async def task_page(
        self, principal: str, path: str, after: tuple[datetime, UUID] | None, size: int
    ) -> list[Task]:
        """Return one page of a principal's tasks, as ``client_tasks.page``. Raise Unavailable."""
        return await _stored(aquery_soon(client_tasks.page, principal, path, after, size))

    async def answer_task(self, call: CallRecord, responses: dict[str, dict[str, Any]]) -> bool:
        """Store answers to a task's questions. Return False if they answer no open question.

        Raise Unavailable.
        """
        changed = await _stored(aquery_soon(_answer_task, call.id, responses))
        if changed is not None:
            await announce_task(self._streams, changed)
        return changed is not None

    async def answer_core_task(self, session_id: str, response: jsonrpc.Response) -> bool | None:
        """Store a client's response as the answer to a task's question. Raise Unavailable.

        Return None if the response does not belong to a task's question, and False if the question is not
        open.
        """
        asked = core_tasks.question_of(response.id)
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
        """Wait for a task's result, as ``TaskResults.begin``. Raise Unavailable."""
        return await _stored(self.results.begin(call, session_id, request_id))

    async def end_task(self, call: CallRecord, reason: str) -> bool:
        """End a core task as cancelled, even if a worker still runs it.

        Return False if the task has already finished (TASK4-07).
        """
        encoded = stored_answers.cancelled(call)
        if not await _stored(aquery_soon(records.end_cancelled, call.id, encoded, reason)):
            return False
        if _is_idle(call):
            self._log_cancelled(call, encoded)
        await self._stop_worker(call, reason)
        # If publishing fails, the reaper publishes the answer later.
        with suppress(DatabaseError):
            await publish(self._streams, call, encoded)
        return True

    async def cancel_call(self, call_id: UUID, reason: str) -> None:
        """Stop a call by its id. Do nothing if the call has finished. Raise Unavailable."""
        call = await _stored(aquery_soon(records.request_cancel_of, call_id, reason))
        if call is not None:
            await self._stop(call, reason)

    async def restore(self, call: CallRecord) -> Position:
        """Return the start of a call's stream.

        If Redis lost the stream, recreate it with the answer (R12).
        """
        position = await self._streams.log.open(call.session_id, call.stream, owner=call.principal)
        if call.is_finished:
            # Even if the stream exists: after a restore from a backup, Redis may have the stream without
            # the answer.
            await publish(self._streams, call, call.answer)
        return Position(position.epoch, 0)

    async def lost_stream(self, session_id: str, stream: str) -> tuple[str, Position] | None:
        """Restore a stream that Redis lost if it belongs to a stored call or to a wait, else return None."""
        if stream.startswith(WAIT):
            return await _stored(self.results.restore(session_id, stream))
        if not stream.startswith(PREFIX):
            return None
        call = await _stored(aquery_soon(records.find_by_stream, session_id, stream))
        return None if call is None else (call.stream, await self.restore(call))

    async def complete(self, session_id: str, stream: str) -> bool:
        """Add the answer to a stream whose answer Redis may have lost.

        Return False if the stream does not belong to a background call. While the database is down, the
        stream stays without its answer.
        """
        if not stream.startswith((PREFIX, WAIT)):
            return False
        with suppress(Unavailable):
            return await self.lost_stream(session_id, stream) is not None
        return True

    async def cancel(self, session_id: str, request_id: str | int, reason: str) -> bool:
        """Stop a waiting or running call in any worker (R8).

        Return False if there is no such call, and while the database is down. The caller can then only
        broadcast the cancellation.
        """
        if not self.available or not await self._had_calls(session_id):
            return False
        try:
            call = await aquery_soon(records.request_cancel, session_id, request_id, reason)
            if call is None:
                return await self.results.give_up(session_id, request_id)
        except DatabaseError as error:
            log.warning("A cancellation could not be stored: %s", error)
            return False
        await self._stop(call, reason)
        self._repeats.answered(call.id)  # CAN-02: the client expects no answer.
        return True

    async def cancel_session(self, session_id: str, reason: str) -> None:
        """Stop every unfinished call of a session that ends (SES-07)."""
        if not self.available:
            return
        for call in await aquery(records.open_calls, session_id):
            await self.cancel(session_id, call.request_id, reason)

    async def _had_calls(self, session_id: str) -> bool:
        """Return True if the session may have background calls.

        Most sessions never had one, which saves a query.
        """
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
            await self._streams.hub.publish("cancel", call_record.cancel_broadcast(call, reason))
        except StreamsError:
            log.warning(
                "The broadcast to cancel call %s failed. Its worker reads the database instead.",
                call.id,
            )

    async def _end_idle(self, call: CallRecord) -> bool:
        """End a call that no worker runs. Its job will then find nothing to do.

        Return False if a worker runs the call.
        """
        if not _is_idle(call):
            return False
        answer = stored_answers.cancelled(call)
        ended = await aquery(records.cancel_idle, call, answer)
        if ended:
            self._log_cancelled(call, answer)
            await publish(self._streams, call, answer)
            if call.is_suspended:
                later(left.cancel(str(call.id)))
        return ended

    def _log_cancelled(self, call: CallRecord, answer: bytes) -> None:
        if self._message_log is not None:
            log_exchanges(self._message_log, [(call, answer, CANCELLED)])


def _is_idle(call: CallRecord) -> bool:
    """Return True if no worker runs the call. Then no worker would end and log it."""
    return call.state in UNSTARTED or call.is_suspended


def _accept(
    new: NewCall, settings: Settings, enqueue: Callable[[CallRecord], None]
) -> tuple[CallRecord, bool]:
    """Store the call and queue its job. Return the call and True if it is new."""
    if new.approval_minutes is None:
        call, is_new = records.accept(new)
    else:
        call, is_new = pending_approvals.accept(new, settings.max_waiting_approvals_per_principal)
    if is_new:
        failpoints.reach("after-accept")
        if new.place is not None:
            keyed_calls.attach(new.place, call.id)
        if not call.waits_for_approval:
            enqueue(call)
    return call, is_new


def _answer_task(call_id: UUID, responses: dict[str, dict[str, Any]]) -> CallRecord | None:
    changed = task_records.answer(call_id, responses)
    if changed is None:
        return None
    call, goes_on = changed
    if goes_on:
        enqueue_new(call)
    return call


async def _stored(work: Awaitable[T]) -> T:
    """Return the result of ``work``. Raise Unavailable while the database is down.

    Use ``aquery_soon`` in ``work`` for requests that may be refused (R15). Accepted calls may wait longer.
    """
    try:
        return await work
    except DatabaseError as error:
        raise unavailable() from error
