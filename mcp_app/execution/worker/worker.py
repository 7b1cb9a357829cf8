"""Execution of background calls in a child process of Celery: one event loop, and one attempt at a time."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from asyncio import new_event_loop, run_coroutine_threadsafe
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from datetime import timedelta
from functools import partial
from time import monotonic, perf_counter, sleep
from typing import Any, TypeVar
from uuid import UUID

from django.db import DatabaseError

from mcp_app.auth.api_keys import principal_of
from mcp_app.auth.principal import Principal
from mcp_app.catalogue.snapshots.current_snapshot import Views, refresh_now
from mcp_app.catalogue.snapshots.snapshot import EMPTY, Catalogue
from mcp_app.catalogue.upstreams import following
from mcp_app.conf import Settings
from mcp_app.database import clock, queries
from mcp_app.database.queries import query
from mcp_app.execution.background.answer_streams import announce_task, fence_off, reported_progress
from mcp_app.execution.background.celery import enqueue_again, remove_jobs
from mcp_app.execution.background.id_batch import Published
from mcp_app.execution.calls import failpoints
from mcp_app.execution.calls.call import RunningCall, attempt
from mcp_app.execution.calls.context import Context
from mcp_app.execution.calls.reading import read_for
from mcp_app.execution.calls.results import error_result
from mcp_app.execution.calls.runner import Runner
from mcp_app.execution.questions.inputs import Inputs
from mcp_app.execution.stored import stored_answers
from mcp_app.execution.stored.approved_work import approval_of, covers
from mcp_app.execution.stored.call_record import CallRecord
from mcp_app.execution.stored.next_call import RunningLimits, TooManyRunning, take
from mcp_app.execution.stored.stored_answers import request_of, session_of
from mcp_app.execution.worker.attempt_reply import AttemptReply
from mcp_app.execution.worker.attempt_slots import AttemptSlot
from mcp_app.execution.worker.lease_renewer import LeaseRenewer
from mcp_app.execution.worker.waiting_children import PREEMPTED, WaitingChildren, WaitingSlot
from mcp_app.foreign_code import outlast
from mcp_app.message_log.log import MessageLog
from mcp_app.metrics.counts import Counts
from mcp_app.metrics.report import MetricsReporter
from mcp_app.observability import spans
from mcp_app.observability.call_telemetry import of_attempt
from mcp_app.protocol.messages.progress import check_progress_token
from mcp_app.protocol.principal_key import person_of
from mcp_app.sessions.client_requests import ClientRequests
from mcp_app.sessions.session import LiveSession
from mcp_app.streams.base import SessionEnded, StreamsError
from mcp_app.streams.gateway import Streams
from mcp_app.upstreams import sessions as upstream_sessions

with suppress(ImportError):
    from uvloop import new_event_loop

T = TypeVar("T")
Attempt = tuple[LeaseRenewer, Future[str]]
CLAIM_SECONDS = 60.0
CLAIM_PAUSE = 0.5
# Seconds after which a call is tried again that could not start because of a limit of running calls.
PLACE_SECONDS = 1.0
# Less than the time after which the reaper considers a queued job lost.
PLACE_SECONDS_MAX = 8.0
POLLS_PER_SECOND = 50
# A call that was accepted this recently starts with the session as stored in its row. The session is loaded
# again only if the call still runs a moment later, because most calls have finished by then.
YOUNG = timedelta(seconds=1)
POLL_SECONDS = 0.2
CLOSE_SECONDS = 2.0
# One job runs several short calls for up to this long, because Celery's own work for a job takes as long as
# a short call.
TURN_SECONDS = 0.1

log = logging.getLogger("mcp.worker")


class Worker:
    """The worker in one process. It is created after the fork, with the first job of the process."""

    def __init__(
        self,
        settings: Settings,
        *,
        may_exit: bool,
        place: WaitingSlot | None = None,
        slot: AttemptSlot | None = None,
    ) -> None:
        """Create the worker.

        ``place`` records that this process waits for a client, so that a substitute can be started.
        ``slot`` shows the running attempt to the worker's main process, if the main process supervises it.
        """
        queries.watch()
        self._settings = settings
        self._may_exit = may_exit
        self.name = f"{socket.gethostname()[:60]}:{os.getpid()}"
        self._loop = new_event_loop()
        self._streams = Streams.connect(settings.redis_url, settings)
        self._log = MessageLog(self._streams, settings)
        self._place = place or WaitingSlot(WaitingChildren(), 0, 1)
        self._slot = slot
        self._requests = ClientRequests(
            self._streams, self._log, settings.client_request_seconds, self._place
        )
        self._place.on_leave = partial(self._call_in_loop, partial(self._requests.give_up, PREEMPTED))
        self._runner = Runner(settings.sync_threads)
        self._published = Published()
        self._offered, self._views = EMPTY, Views(settings.server)
        self._limits = RunningLimits()
        # The running calls by session, request id and call id.
        self._running: dict[tuple[str, str | int, str], RunningCall] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._counts = Counts()
        self._metrics = MetricsReporter("worker", self._streams, self._counts, self._log)
        self._metrics.gauges["running_calls"] = lambda: len(self._running)
        threading.Thread(target=self._run_loop, name="mcp-worker-loop", daemon=True).start()
        run_coroutine_threadsafe(self._start(), self._loop).result()
        with suppress(DatabaseError):
            query(clock.read)

    def _run_loop(self) -> None:
        outlast(self._loop.run_forever, lambda: False)

    def run(self, call_id: UUID | str) -> str:
        """Run one attempt of the next call in the queue of this call, which is often this call itself.

        Return its outcome, or "" if there was nothing to do. After a short attempt, run further calls for
        up to TURN_SECONDS, and remove as many jobs from the queue. This blocks.
        """
        until = monotonic() + TURN_SECONDS
        try:
            attempt = self._claim(call_id)
        except TooManyRunning as full:
            query(_enqueue_later, full)
            return ""
        if attempt is None:
            return ""
        renewer, work = attempt
        outcome = renewer.watch(work)
        further = list[CallRecord]()
        try:
            while monotonic() < until and (attempt := self._claim(call_id, further=True)):
                renewer, work = attempt
                further.append(renewer.record)
                renewer.watch(work)
        finally:
            if further:
                remove_jobs(further)
        return outcome

    def _claim(self, call_id: UUID | str, *, further: bool = False) -> Attempt | None:
        """Claim a call, and retry while the database is down, because the job is delivered only once (R15).

        With ``further``, claim a call in addition to the call that the job is for, if one may start at
        once. Such a call has its own job. Therefore return None instead of raising ``TooManyRunning`` or
        DatabaseError.
        """
        failpoints.reach("before-claim")
        deadline = monotonic() + (0.0 if further else CLAIM_SECONDS)
        claimed: list[tuple[CallRecord, float]] = []
        while True:
            try:
                return query(self._claim_now, call_id, claimed, further=further)
            except DatabaseError as error:
                if claimed:
                    deadline = max(deadline, claimed[0][1] + CLAIM_SECONDS)
                if monotonic() > deadline:
                    if further:
                        return None
                    raise
                log.warning(
                    "The start of call %s is postponed, the database is unavailable: %s", call_id, error
                )
                sleep(CLAIM_PAUSE)

    def _claim_now(
        self, call_id: UUID | str, claimed: list[tuple[CallRecord, float]], *, further: bool
    ) -> Attempt | None:
        """Start an attempt.

        ``claimed`` stores the claimed call in case the database fails before the attempt starts.
        """
        if not claimed:
            offered = refresh_now()
            if offered is not self._offered:
                self._serve(offered)
            record = take(call_id, self.name, self._limits, further=further)
            if record is None:
                return None
            claimed.append((record, monotonic()))
        record, claimed_at = claimed[0]
        principal = principal_of(record.principal, record.user_id, record.api_key_id, record.scopes)
        self._place.person = person_of(record.principal)
        failpoints.reach("after-claim")
        renewer = LeaseRenewer(
            record,
            self._call_in_loop,
            may_exit=self._may_exit,
            claimed_at=claimed_at,
            place=self._place,
            slot=self._slot,
            on_news=partial(self._announce_task, record) if record.is_task else None,
        )
        return renewer, run_coroutine_threadsafe(self._run(record, principal, renewer), self._loop)

    def _serve(self, offered: Catalogue) -> None:
        """Use this catalogue for the calls claimed from now on."""
        # S14: the schema of a tool can mark arguments as secret.
        self._log.keep_secret(offered.secret_names)
        self._limits = RunningLimits(
            offered.max_running,
            self._settings.max_running_background_calls_per_principal,
            self._settings.max_held_questions_per_principal,
        )
        self._offered = offered

    def close(self) -> None:
        """Flush the buffers and stop the event loop. This takes at most CLOSE_SECONDS."""
        with suppress(TimeoutError):
            run_coroutine_threadsafe(self._close(), self._loop).result(CLOSE_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        queries.close()

    async def _start(self) -> None:
        self._streams.hub.subscribe("cancel", self._on_cancel)
        self._streams.hub.subscribe("session", self._on_session)
        following.start()
        self._streams.hub.subscribe("watching", self._log.on_watching)
        await self._streams.start()
        self._log.start()
        spans.start()
        if self._settings.metrics:
            self._metrics.start()

    async def _close(self) -> None:
        await self._published.flush()
        await self._metrics.close()
        await self._log.close()
        await self._streams.close()
        await self._runner.close()

    async def _run(self, record: CallRecord, principal: Principal, renewer: LeaseRenewer) -> str:
        inputs = None if record.inputs is None else _inputs(record, record.inputs)
        reply = AttemptReply(self._streams, record, self._published, inputs, self._log)
        call = renewer.call = self._call(record, principal, reply, inputs)
        later = self._loop.call_later(POLL_SECONDS, self._reload_session_later, record, call)
        if record.attempt > 1 or record.approved or record.reminded:
            await fence_off(self._streams, record, record.attempt)
            call.progress_above = await reported_progress(self._streams, record)
        if record.read_at is None or record.read_at - record.accepted_at > YOUNG:
            later.cancel()
            await self._reload_session(record, call)
        if record.cancel_reason:
            call.cancel(record.cancel_reason)
        await self._attempt(record, call)
        if await reply.done():  # The answer of an attempt that has lost its call is discarded.
            self._counts.done("tools/call", call.outcome, record.tool, perf_counter() - call.started)
        later.cancel()
        # If a thread never finishes, the lease renewer ends this process. Exceptions in a thread come too
        # late to matter.
        if call.threads:
            await asyncio.gather(*(work.end() for work in call.threads))
        return call.outcome

    def _call(
        self, record: CallRecord, principal: Principal, reply: AttemptReply, inputs: Inputs | None
    ) -> RunningCall:
        token, session = record.meta.get("progressToken"), session_of(record)
        return RunningCall(
            request_id=record.request_id,
            method="tools/call",
            target=record.tool,
            # The session as it was when the call was accepted.
            session=session,
            principal=principal,
            catalogue=self._views.of(principal.permissions, session.path),
            reply=reply,
            requests=self._requests,
            settings=self._settings,
            progress_token=None if token is None else check_progress_token(token),
            timeout=record.timeout,
            payload=request_of(record),
            meta=record.meta,
            on_timeout=lambda: error_result(stored_answers.too_slow(record)),
            telemetry=of_attempt(
                call=str(record.id),
                attempt=record.attempt,
                tool=record.tool,
                session=record.session_id,
                principal=record.principal,
                request_id=record.request_id,
                meta=record.meta,
            ),
            inputs=inputs,
        )

    async def _reload_session(self, record: CallRecord, call: RunningCall) -> None:
        """Load the call's session again.

        If Redis has lost the session, the call continues with the stored one.
        """
        if record.is_task or not isinstance(call.session, LiveSession):
            return  # The sessions of these calls stay as they were stored.
        try:
            fields = await self._streams.sessions.load(record.session_id)
        except SessionEnded:
            call.cancel("the session ended")
        except StreamsError:
            log.warning("Call %s runs without Redis", record.id)
        else:
            call.session.refresh(fields or record.session_fields)

    def _reload_session_later(self, record: CallRecord, call: RunningCall) -> None:
        self._keep(self._reload_session(record, call))

    async def _attempt(self, record: CallRecord, call: RunningCall) -> None:
        key = (record.session_id, record.request_id, str(record.id))
        self._running[key] = call
        try:
            call.watch(self._settings.grace_seconds)
            context = Context(call, read_for(self._runner))
            await asyncio.wait((asyncio.ensure_future(attempt(call, partial(self._work, record), context)),))
        finally:
            self._running.pop(key, None)

    async def _work(self, record: CallRecord, call: RunningCall, context: Context) -> dict[str, Any]:
        entry = call.catalogue.tool(record.tool)
        if entry is None:
            return error_result(f"{record.tool} is no longer offered.")
        if record.approved and not covers(approval_of(record), entry, record.arguments):
            return error_result(f"{record.tool} was changed after this call was approved: call it again.")
        return await self._runner.run_tool(entry, record.arguments, call, context, approved=record.approved)

    def _announce_task(self, record: CallRecord) -> None:
        self._keep(announce_task(self._streams, record))

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in a task, and hold a reference to the task until it has finished."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _call_in_loop(self, function: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(function)

    def _on_cancel(self, payload: dict[str, Any]) -> None:
        """Cancel a running call. A payload has no ``call`` if it was sent while the database was down."""
        if "session" not in payload:
            return
        wanted = (payload["session"], payload["request_id"])
        for (*request, call_id), call in list(self._running.items()):
            if tuple(request) == wanted and payload.get("call", call_id) == call_id:
                call.cancel(payload.get("reason", ""))

    def _on_session(self, payload: dict[str, Any]) -> None:
        if payload.get("what") == "ended":
            upstream_sessions.client_ended(payload["session"])
            for (session_id, *_), call in list(self._running.items()):
                if session_id == payload["session"]:
                    call.cancel("the session ended")


def _enqueue_later(full: TooManyRunning) -> None:
    """Queue the call again.

    The more calls wait, the longer the delay, so that the repeated checks stay cheap.
    """
    enqueue_again(full.call, min(max(PLACE_SECONDS, full.waiting / POLLS_PER_SECOND), PLACE_SECONDS_MAX))


def _inputs(record: CallRecord, stored: dict[str, Any]) -> Inputs:
    inputs = Inputs.restored(stored)
    inputs.kept = record.is_task
    if record.approved:
        inputs.approve(approval_of(record))
    return inputs
