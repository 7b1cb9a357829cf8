"""A client's running request: its task, its deadline, its cancellation and the messages it sends."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import CancelledError as FutureCancelled
from contextlib import contextmanager
from math import inf
from time import perf_counter
from typing import Any, TypeVar

from mcp_app.auth.principal import Principal
from mcp_app.catalogue.snapshots.view import CatalogueView
from mcp_app.conf import Settings
from mcp_app.execution.calls.call_messages import PROGRESS, log_exchange, log_notification, log_running
from mcp_app.execution.calls.exceptions import Cancelled, Suspended
from mcp_app.execution.calls.json_values import sendable
from mcp_app.execution.calls.reply import Lost, Outlet
from mcp_app.execution.calls.results import unexpected
from mcp_app.execution.calls.threads import Work, own_work
from mcp_app.execution.questions import request_state
from mcp_app.execution.questions.inputs import Inputs
from mcp_app.foreign_code import let_pass
from mcp_app.observability.call_telemetry import CallTelemetry
from mcp_app.protocol.errors import InternalError, McpError, RequestCancelled, fitted
from mcp_app.protocol.messages import jsonrpc
from mcp_app.protocol.messages.logging import at_least
from mcp_app.protocol.messages.progress import ProgressGate, check_progress
from mcp_app.protocol.messages.trace_context import joined
from mcp_app.sessions.client_requests import ClientRequests, withdrawal
from mcp_app.sessions.negotiated import Negotiated

# Seconds that stopped code gets to clean up. After that, the client is answered without waiting for the
# code.
UNWILLING_SECONDS = 5.0
# Stop reason: the call needs the client's input, which arrives with a new request.
INPUT = "input"

log = logging.getLogger("mcp.call")
T = TypeVar("T")


class RunningCall:
    """A client's request for which application code runs.

    For the event loop only, unless a method states otherwise. A call has one outcome. The first of finish,
    cancel and deadline decides it and sets ``outcome`` or ``stopped_by``. After that, the other two do
    nothing.
    """

    __slots__ = (
        "_asked",
        "_deadline",
        "_flush",
        "_gate",
        "_logged",
        "_questions",
        "_requests",
        "_thread",
        "catalogue",
        "finished",
        "inputs",
        "last_progress",
        "loop",
        "meta",
        "method",
        "noted_at",
        "on_timeout",
        "outcome",
        "payload",
        "principal",
        "progress_above",
        "progress_token",
        "refusal",
        "reply",
        "request_id",
        "session",
        "settings",
        "started",
        "stopped_by",
        "target",
        "task",
        "telemetry",
        "threads",
        "timeout",
    )

    def __init__(
        self,
        *,
        request_id: str | int,
        method: str,
        target: str,
        session: Negotiated,
        principal: Principal,
        catalogue: CatalogueView,
        reply: Outlet,
        requests: ClientRequests,
        settings: Settings,
        progress_token: str | int | None,
        timeout: float,
        payload: bytes,
        meta: dict[str, Any],
        on_timeout: Callable[[], dict[str, Any]],
        telemetry: CallTelemetry,
        inputs: Inputs | None = None,
        finished: Callable[[RunningCall, float], None] | None = None,
    ) -> None:
        self.request_id = request_id
        self.method, self.target = method, target
        self.session, self.principal, self.catalogue = session, principal, catalogue
        self.reply, self.settings = reply, settings
        self.progress_token = progress_token
        self.timeout = timeout
        self.payload, self.meta = payload, meta
        self.on_timeout, self.finished = on_timeout, finished
        self.telemetry, self.inputs = telemetry, inputs
        self.task: asyncio.Task[Any] | None = None  # Stays None for work that never waits.
        self.outcome = self.stopped_by = self.refusal = ""
        self.threads: tuple[Work, ...] = ()
        self.last_progress: tuple[float, float | None, str | None] | None = None
        self.progress_above: float | None = None
        self._asked: set[str] | None = None  # Created with the first question, like ``_questions``.
        self._requests = requests
        self.loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        self.started = perf_counter()
        self._gate: ProgressGate | None = None
        self._flush: asyncio.TimerHandle | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._logged, self.noted_at = 0, -inf
        self._questions: set[asyncio.Task[Any]] | None = None

    def watch(self, grace: float = 0.0) -> None:
        """Start the deadline, and log the call as running if it does not finish within ``grace`` seconds."""
        if self._deadline is None and not self.outcome:
            self._deadline = self.loop.call_later(self.timeout, self._stop, "deadline")
            log_running(self, self._requests.log, grace)

    def cancel(self, reason: str) -> None:
        """Stop the call: async code at its next await, a thread at its next use of the context (CAN-01)."""
        if self.outcome or self.stopped_by:
            return
        if self.in_thread:
            words = "%s %r runs in a thread and may continue after its cancellation (%s)"
            log.info(words, self.method, self.target, reason or "no reason given")
        self._stop("cancel")

    def shut_down(self) -> None:
        """Stop the call because the process shuts down. The answer states this reason."""
        self._stop("shutdown")

    @property
    def in_thread(self) -> bool:
        """True while synchronous code of this call runs in a thread, even if the call has been answered."""
        return any(work.running() for work in self.threads)

    @property
    def goes_on(self) -> bool:
        """True while code of this call runs, even if the call has been answered."""
        return self.in_thread or (self.task is not None and not self.task.done())

    @property
    def stopped(self) -> bool:
        """True if the call was stopped and the caller no longer waits. Thread-safe."""
        return self.stopped_by != ""

    @property
    def suspended(self) -> bool:
        """True if the call ended with questions to the client. The return value of its code is ignored."""
        return self.stopped_by == INPUT

    def raise_if_stopped(self) -> None:
        """Raise Cancelled if the call was cancelled or finished, Suspended if it ended with questions."""
        if self.stopped_by == INPUT:
            raise Suspended
        if self.outcome or self.stopped_by:
            raise Cancelled

    @property
    def interrupted(self) -> bool:
        """True if the call was stopped from outside, and not by a CancelledError that its own code raised."""
        return self.stopped_by != "" or (self.task is not None and self.task.cancelling() > 0)

    def _stop(self, by: str) -> None:
        if self.outcome or self.stopped_by:
            return
        self.stopped_by = by
        # Cancel the questions first: the client must see their withdrawal before the answer (CAN-08).
        for question in self._questions or ():
            question.cancel()
        if self.task is not None:
            self.task.cancel()
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(UNWILLING_SECONDS, self._abandon)

    def _abandon(self) -> None:
        log.warning("%s %r did not stop when cancelled and may still be running", self.method, self.target)
        self.finish(*ending(self))

    def finish(self, encoded: bytes, outcome: str) -> None:
        """Send the answer. Drop it if the call already has one."""
        if self.outcome:
            return
        if self._gate is not None:
            self.flush_progress()
        self.outcome = outcome
        if self._deadline is not None:
            self._deadline.cancel()
        self.session.in_flight.pop(self.request_id, None)
        # A thread may still wait for the answer to a question. The question must be withdrawn now, because
        # nothing can be sent after the call's answer.
        while self._asked:
            self.reply.send(withdrawal(self._asked.pop()))
        for question in self._questions or ():
            question.cancel()
        self.reply.answer(encoded, outcome)
        self.telemetry.end(outcome, encoded)
        seconds = perf_counter() - self.started
        log_exchange(self, self._requests.log, encoded, seconds)
        if self.finished is not None:
            self.finished(self, seconds)

    def send(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification on the call's stream. Thread-safe. It is dropped after the answer (PROG-03)."""
        fitted = self.session.message(method, params)
        if fitted is not None:
            # Encode now: the code may change the params later, and if they cannot be encoded, the code must
            # get the error.
            self._put(jsonrpc.encode_notification(method, fitted), method=method)

    def _put(self, encoded: bytes, lost: Lost | None = None, kind: str = "message", method: str = "") -> None:
        if self.outcome:
            return
        if threading.get_ident() != self._thread:
            self.loop.call_soon_threadsafe(self._put, encoded, lost, kind, method)
            return
        self.reply.send(encoded, kind, lost)
        if method:
            log_notification(self, self._requests.log, method, encoded)

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Report progress. Thread-safe.

        Nothing is sent if the client gave no progress token (PROG-01). Raise ValueError for a number that
        is not finite.
        """
        if self.outcome:
            return
        check_progress(progress, total)
        self.last_progress = (progress, total, message)
        if self.progress_token is None:
            return
        if threading.get_ident() != self._thread:
            self.loop.call_soon_threadsafe(self.progress, progress, total, message)
            return
        if self._gate is None:
            self._gate = ProgressGate(1 / self.settings.progress_per_second, above=self.progress_above)
        params = self._gate.offer(progress, total, message, self.loop.time())
        if params is not None:
            self._send_progress(params)
        elif self._flush is None and self._gate.held:
            # The latest value was suppressed by the rate limit. Send it later, because it may be the last
            # one (PROG-04).
            self._flush = self.loop.call_later(1 / self.settings.progress_per_second, self.flush_progress)

    def flush_progress(self) -> None:
        """Send the latest progress value if it was suppressed."""
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
        if self._gate is not None and (params := self._gate.flush(self.loop.time())) is not None:
            self._send_progress(params)

    def _send_progress(self, params: dict[str, Any]) -> None:
        if not self.stopped_by:
            self.send(PROGRESS, {"progressToken": self.progress_token, **params})

    def log_message(self, level: str, data: Any, logger: str) -> None:
        """Send a log message if the session's log level (LOG-02) and the limit per call (LOG-06) allow it."""
        if not self.session.log_level or not at_least(level, self.session.log_level):
            return
        self._logged += 1
        limit = self.settings.log_messages_per_call
        if self._logged > limit + 1:
            return
        if self._logged == limit + 1:
            level, data = "warning", f"More than {limit} log messages: the rest of this call's are left out."
        sent = sendable(data, self.settings.redacted_names)
        self.send("notifications/message", {"level": level, "logger": logger, "data": sent})

    def close_stream(self, retry_ms: int) -> None:
        """Close the client's connection. The client reconnects after ``retry_ms`` and polls (T-POLL-03)."""
        self._put(b"%d" % retry_ms, kind="close")

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a question on the call's stream and return the client's answer.

        The client may send the answer to any process. ``params`` must be valid in the client's revision.
        Raise Cancelled if this call was cancelled.
        """
        with self._question(), self._requests.place:
            if self._gate is not None:
                self.flush_progress()
            if self.telemetry.context is not None:
                params = joined(params, self.telemetry.context)
            self._asked = set() if self._asked is None else self._asked
            return await self._requests.ask(self.session, method, params, self._put, self._asked)

    async def wait_for_next_round(self) -> Any:
        """End the call with the questions in ``inputs``.

        Questions that other tasks of the call ask in the same turn of the event loop are included.
        """
        with self._question():
            self.loop.call_soon(self.suspend)
            return await self.loop.create_future()

    def suspend(self) -> None:
        """End the call if it has open questions, unless a function passed to ``once`` is running."""
        if self.inputs is not None and self.inputs.requests and not self.inputs.effects:
            self._stop(INPUT)

    def run_from_thread(self, question: Callable[[], Awaitable[T]]) -> T:
        """Await ``question()`` on the event loop for synchronous code, whose thread is blocked meanwhile.

        Raise Cancelled if this call was cancelled.
        """
        if threading.get_ident() == self._thread:
            raise RuntimeError("This name blocks: async code must await the name that begins with 'a'.")
        self.raise_if_stopped()
        work = own_work()

        async def awaited() -> T:
            with self._question():
                return await question() if work is None else await work.away(question)

        try:
            return asyncio.run_coroutine_threadsafe(awaited(), self.loop).result()
        except FutureCancelled:
            self.raise_if_stopped()
            raise Cancelled from None

    @contextmanager
    def _question(self) -> Iterator[None]:
        """Within this context, cancel the current task when the call is stopped."""
        self.raise_if_stopped()
        task = asyncio.current_task()
        assert task is not None
        questions = self._questions = self._questions or set()
        questions.add(task)
        try:
            yield
        finally:
            questions.discard(task)


async def attempt(
    call: RunningCall,
    work: Callable[[RunningCall, T], Awaitable[dict[str, Any]]],
    context: T,
    *,
    in_task: bool = True,
) -> None:
    """Run ``work`` and answer the call with its result or error.

    No exception of application code passes this point.
    """
    if in_task:
        # The caller must not set the task: a task that is cancelled before its first step neither runs nor
        # answers.
        call.task = asyncio.current_task()
    call.telemetry.enter()
    try:
        if call.stopped_by:
            raise asyncio.CancelledError
        try:
            result = await work(call, context)
            encoded = jsonrpc.encode_result(call.request_id, call.session.fit(call.method, result))
            outcome = "tool_error" if result.get("isError") else "ok"
        except McpError as error:
            fit = fitted(error, call.session.version)
            encoded, outcome = jsonrpc.encode_error(fit, call.request_id), "error"
            call.refusal = error.refusal
    except (asyncio.CancelledError, Cancelled, Suspended):
        encoded, outcome = ending(call)
    except BaseException as error:  # noqa: BLE001 - the boundary: application code may raise anything
        let_pass(error, call.task)
        fault = unexpected(call.method, call.target)
        encoded, outcome = jsonrpc.encode_error(fault, call.request_id), "error"
    call.finish(encoded, outcome)


def ending(call: RunningCall) -> tuple[bytes, str]:
    """Return the answer to a stopped call, and its outcome.

    CAN-02: over HTTP even a cancelled request is answered, because only an answer ends its stream properly.
    """
    error: McpError
    outcome = "error"
    try:
        if call.stopped_by == "deadline":
            result = call.session.fit(call.method, call.on_timeout())
            return jsonrpc.encode_result(call.request_id, result), "tool_error"
        if call.inputs is not None and call.suspended:
            result = request_state.result(call.inputs, call.principal.key, call.settings)
            return jsonrpc.encode_result(call.request_id, call.session.fit(call.method, result)), "asked"
        if call.stopped_by == "cancel":
            error, outcome = RequestCancelled(), "cancelled"
        elif call.interrupted:
            error = InternalError("The server is stopping.")
        else:
            error = unexpected(call.method, call.target)
    except McpError as too_late:
        error = too_late
    except Exception:  # noqa: BLE001 - any error, such as a key that cannot seal, needs an answer
        error = unexpected(call.method, call.target)
    return jsonrpc.encode_error(fitted(error, call.session.version), call.request_id), outcome
