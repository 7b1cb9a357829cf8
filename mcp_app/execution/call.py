"""One running request of a client: its task, deadline, cancellation and the messages it sends on the way."""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError as FutureCancelled
from concurrent.futures import Future
from functools import lru_cache
from time import perf_counter
from typing import Any, TypeVar

import orjson

from mcp_app.auth.principal import Principal
from mcp_app.conf import Settings
from mcp_app.execution.json_values import encodable, jsonable
from mcp_app.execution.reply import Reply
from mcp_app.observability.redaction import Redactor
from mcp_app.protocol import downlevel, jsonrpc
from mcp_app.protocol.errors import InternalError, McpError, RequestCancelled
from mcp_app.protocol.logging import at_least
from mcp_app.protocol.progress import ProgressGate
from mcp_app.sessions.client_requests import ClientRequests, withdrawal
from mcp_app.sessions.session import Session

log = logging.getLogger("mcp.call")
T = TypeVar("T")


class Cancelled(Exception):
    """The caller no longer waits for this call; stop and clean up."""


class Call:
    """A client's request while application code works on it.

    Everything here runs on the event loop, except where a method says otherwise. One outcome only: whichever
    of finish, cancel and deadline comes first decides, the others find ``outcome`` set.
    """

    __slots__ = (
        "_asked",
        "_deadline",
        "_flush",
        "_gate",
        "_logged",
        "_loop",
        "_requests",
        "_thread",
        "_waiting",
        "cancelled_for",
        "finished",
        "in_thread",
        "meta",
        "method",
        "outcome",
        "payload",
        "principal",
        "progress_token",
        "reply",
        "request_id",
        "session",
        "settings",
        "started",
        "target",
        "task",
        "timed_out",
        "timeout",
    )

    def __init__(
        self,
        *,
        request_id: str | int,
        method: str,
        target: str,
        session: Session,
        principal: Principal,
        reply: Reply,
        requests: ClientRequests,
        settings: Settings,
        progress_token: str | int | None,
        timeout: float,
        payload: bytes,
        meta: dict[str, Any],
        finished: Callable[[Call, bytes], None],
    ) -> None:
        self.request_id = request_id
        self.method = method
        self.target = target
        self.session = session
        self.principal = principal
        self.reply = reply
        self.settings = settings
        self.progress_token = progress_token
        self.timeout = timeout
        self.payload = payload
        self.meta = meta
        self.finished = finished
        self.task: asyncio.Task[None] | None = None
        self.outcome = ""
        self.cancelled_for: str | None = None
        self.timed_out = False
        self.in_thread = False
        self._asked: set[str] = set()
        self._requests = requests
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self.started = perf_counter()
        self._gate: ProgressGate | None = None
        self._flush: asyncio.TimerHandle | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._logged = 0
        self._waiting: Future[Any] | None = None

    def watch(self) -> None:
        """The call is not quick: its deadline counts from now."""
        if self._deadline is None and not self.outcome:
            self._deadline = self._loop.call_later(self.timeout, self._expire)

    def cancel(self, reason: str) -> None:
        """Stop the call: async code at its next await, threads when they next use the context (CAN-01)."""
        if self.outcome or self.cancelled_for is not None:
            return
        self.cancelled_for = reason or "cancelled by the client"
        if self._waiting is not None:
            self._waiting.cancel()  # A thread that waits for an answer must not wait on.
        if self.in_thread:
            log.warning(
                "%s %r runs in a thread: it was told to stop and may go on unseen", self.method, self.target
            )
        if self.task is not None:
            self.task.cancel()

    @property
    def stopped(self) -> bool:
        """Whether the caller no longer waits; may be read from any thread."""
        return self.cancelled_for is not None or self.timed_out

    def finish(self, encoded: bytes, outcome: str) -> None:
        """Send the one answer; a second one is dropped."""
        if self.outcome:
            return
        self.flush_progress()
        self.outcome = outcome
        if self._deadline is not None:
            self._deadline.cancel()
        self.session.in_flight.pop(self.request_id, None)
        # A thread may still wait for an answer; nothing can be said about that after ours.
        while self._asked:
            self.reply.send(withdrawal(self._asked.pop()))
        self.reply.answer(encoded)
        self.finished(self, encoded)

    def send(self, method: str, params: dict[str, Any]) -> None:
        """A notification on the call's stream, from any thread; silent after the end (PROG-03)."""
        if threading.get_ident() != self._thread:
            self._loop.call_soon_threadsafe(self.send, method, params)
            return
        fitted = downlevel.message(method, params, self.session.version)
        if fitted is not None and not self.outcome:
            self.reply.send(jsonrpc.encode_notification(method, fitted))

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Report progress; may be called from any thread. Without a token nothing is sent (PROG-01)."""
        if self.progress_token is None:
            return
        if threading.get_ident() != self._thread:
            self._loop.call_soon_threadsafe(self.progress, progress, total, message)
            return
        if self._gate is None:
            self._gate = ProgressGate(1 / self.settings.progress_per_second)
        params = self._gate.offer(progress, total, message, self._loop.time())
        if params is not None:
            self._send_progress(params)
        elif self._flush is None and self._gate.held:
            # The newest value held back must not wait for a next report that may never come (PROG-04).
            self._flush = self._loop.call_later(1 / self.settings.progress_per_second, self.flush_progress)

    def flush_progress(self) -> None:
        """Send the value held back, if any."""
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
        if self._gate is not None and (params := self._gate.flush(self._loop.time())) is not None:
            self._send_progress(params)

    def _send_progress(self, params: dict[str, Any]) -> None:
        self.send("notifications/progress", {"progressToken": self.progress_token, **params})

    def log_message(self, level: str, data: Any, logger: str) -> None:
        """A log message, if the session's level asks for it (LOG-02) and the call's limit allows (LOG-06)."""
        if not at_least(level, self.session.log_level):
            return
        self._logged += 1
        limit = self.settings.log_messages_per_call
        if self._logged > limit + 1:
            return
        if self._logged == limit + 1:
            level, data = "warning", f"More than {limit} log messages: the rest of this call's are left out."
        sent = _sendable(data, self.settings.redacted_names)
        self.send("notifications/message", {"level": level, "logger": logger, "data": sent})

    def close_stream(self, retry_ms: int) -> None:
        """Let the client poll: close its connection after telling it when to come back (T-POLL-03)."""
        if threading.get_ident() != self._thread:
            self._loop.call_soon_threadsafe(self.close_stream, retry_ms)
            return
        self.reply.send(b"%d" % retry_ms, kind="close")

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Ask the client on the call's stream and wait for its answer, through whichever process."""
        fitted = downlevel.message(method, params, self.session.version)
        if fitted is None:
            raise InternalError(f"Revision {self.session.version} has no {method}.")
        self.flush_progress()
        return await self._requests.ask(self.session, method, fitted, self.reply.send, self._asked)

    def run_from_thread(self, question: Awaitable[T]) -> T:
        """Await ``question`` on the event loop for synchronous code, whose thread blocks meanwhile."""
        if threading.get_ident() == self._thread:
            raise RuntimeError("This name blocks: async code must await the name that begins with 'a'.")

        async def awaited() -> T:
            return await question

        future = asyncio.run_coroutine_threadsafe(awaited(), self._loop)
        self._waiting = future
        try:
            return future.result()
        except FutureCancelled:
            raise Cancelled from None
        finally:
            self._waiting = None

    def _expire(self) -> None:
        self.timed_out = True
        if self.task is not None:
            self.task.cancel()


@lru_cache(maxsize=1)
def _redactor(names: tuple[str, ...]) -> Redactor:
    return Redactor(names)


def _sendable(data: Any, secret_names: tuple[str, ...]) -> Any:
    """Log data as JSON without credentials (LOG-05); what has no JSON form is named, not raised."""
    try:
        value = orjson.loads(orjson.dumps(jsonable(encodable(data) if isinstance(data, str) else data)))
    except TypeError as error:
        return f"not sent: {error}"
    return _redactor(secret_names).value(value)


Work = Callable[[], Awaitable[dict[str, Any]]]


async def attempt(call: Call, work: Work, on_timeout: Callable[[], dict[str, Any]]) -> None:
    """Run ``work`` and answer the call with its result, or with the error it ended in; the tool boundary."""
    version = call.session.version
    try:
        result = await work()
        encoded = jsonrpc.encode_result(call.request_id, downlevel.result(call.method, result, version))
        outcome = "tool_error" if result.get("isError") else "ok"
    except asyncio.CancelledError:
        encoded, outcome = _stopped(call, on_timeout)
    except McpError as error:
        encoded, outcome = jsonrpc.encode_error(error, call.request_id), "error"
    except Exception:  # noqa: BLE001 - the boundary: application code may raise anything
        encoded, outcome = (
            jsonrpc.encode_error(unexpected(call.method, call.target), call.request_id),
            "error",
        )
    call.finish(encoded, outcome)


def _stopped(call: Call, on_timeout: Callable[[], dict[str, Any]]) -> tuple[bytes, str]:
    """CAN-02: over HTTP a cancelled request is answered, because only an answer ends its stream cleanly."""
    if call.timed_out:
        result = downlevel.result(call.method, on_timeout(), call.session.version)
        return jsonrpc.encode_result(call.request_id, result), "tool_error"
    if call.cancelled_for is not None:
        return jsonrpc.encode_error(RequestCancelled(), call.request_id), "cancelled"
    return jsonrpc.encode_error(InternalError("The server is stopping."), call.request_id), "error"


def unexpected(method: str, target: str) -> InternalError:
    """The error a client sees for a fault of ours: an id to find it by in the log, and nothing else (S25)."""
    incident = secrets.token_hex(4)
    log.error("Incident %s: %s %r failed", incident, method, target, exc_info=True)  # noqa: LOG014 - called by handlers
    return InternalError(f"Internal error (incident {incident}).")
