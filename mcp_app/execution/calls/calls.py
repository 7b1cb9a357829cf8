"""The running calls of one process: starting, finding and cancelling them (CAN-04)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Protocol

from mcp_app.auth.principal import Principal
from mcp_app.catalogue.snapshots.view import CatalogueView
from mcp_app.conf import Settings
from mcp_app.execution.admission.checks import check_running
from mcp_app.execution.calls.call import RunningCall, attempt
from mcp_app.execution.calls.context import Context
from mcp_app.execution.calls.inline_step import begin, run
from mcp_app.execution.calls.reading import read_for
from mcp_app.execution.calls.reply import RequestOutlet
from mcp_app.execution.calls.runner import Runner
from mcp_app.execution.questions.inputs import Inputs
from mcp_app.metrics import tally
from mcp_app.metrics.counts import Counts
from mcp_app.observability.call_telemetry import CallTelemetry
from mcp_app.protocol.principal_key import Bound, Share, share_of
from mcp_app.sessions.client_requests import ClientRequests
from mcp_app.sessions.exchange import CLIENT_RECORD
from mcp_app.sessions.negotiated import Negotiated
from mcp_app.streams.gateway import Streams

Work = Callable[[RunningCall, Context], Awaitable[dict[str, Any]]]


class CallRequest(Protocol):
    """A client's request for which a call can be started."""

    session: Negotiated
    principal: Principal
    catalogue: CatalogueView
    request_id: str | int
    method: str
    payload: bytes

    @property
    def reply(self) -> RequestOutlet:
        """The outlet for the answer."""
        ...

    def telemetry(self, target: str, meta: dict[str, Any]) -> CallTelemetry:
        """Return the telemetry of the call."""
        ...


class RunningCalls:
    """The running calls of one process. Finished calls are removed."""

    def __init__(
        self,
        streams: Streams,
        requests: ClientRequests,
        runner: Runner,
        counts: Counts,
        settings: Settings,
    ) -> None:
        self.runner = runner
        self._read = read_for(runner)
        self._streams = streams
        self._requests = requests
        self._counts = counts
        self._settings = settings
        # The number of calls that each principal runs in this process.
        self.shares: dict[Share, int] = {}
        self._sessions: dict[str, Negotiated] = {}

    @property
    def running(self) -> int:
        """The number of calls running in this process."""
        return sum(self.shares.values())

    def in_flight(self) -> dict[str, list[RunningCall]]:
        """Return the calls running in this process, by the record id of their session."""
        found: dict[str, list[RunningCall]] = {}
        for session in self._sessions.values():
            found.setdefault(session.record_id, []).extend(session.in_flight.values())
        return found

    def start(
        self,
        request: CallRequest,
        *,
        target: str,
        meta: dict[str, Any],
        progress_token: str | int | None,
        timeout: float,
        work: Work,
        on_timeout: Callable[[], dict[str, Any]],
        inputs: Inputs | None = None,
        waits: bool = True,
    ) -> RunningCall:
        """Start work on a request. The answer is sent on the request's reply.

        If the work never ``waits``, it is done when this method returns. Raise InvalidRequest for an id
        that is still in use in this session (RPC-03). Raise TooManyRequests if the principal already runs
        as many calls as allowed.
        """
        session, principal = request.session, request.principal
        share = share_of(Bound.RUNNING_CALLS, principal.key)
        session.check_free(request.request_id)
        running = check_running(self.shares, share, self._settings.max_running_calls_per_principal)
        call = RunningCall(
            request_id=request.request_id,
            method=request.method,
            target=target,
            session=session,
            principal=principal,
            catalogue=request.catalogue,
            reply=request.reply,
            requests=self._requests,
            settings=self._settings,
            progress_token=progress_token,
            timeout=min(timeout, self._settings.tool_timeout_max_seconds),
            payload=request.payload,
            meta=meta,
            on_timeout=on_timeout,
            telemetry=request.telemetry(target, meta),
            inputs=inputs,
            finished=self._finished,
        )
        session.in_flight[request.request_id] = call
        request.reply.calls.append(call)
        self._sessions[session.id] = session
        self.shares[share] = running + 1
        code = attempt(call, work, Context(call, self._read), in_task=waits)
        if waits:
            begin(code, call.loop)  # The call holds a reference to its task.
        else:
            run(code)
        return call

    def cancel(self, session_id: str, request_id: str | int, reason: str) -> bool:
        """Cancel a call that runs in this process. Return False if there is no such call."""
        named = self._named(session_id)
        found = [session.in_flight[request_id] for session in named if request_id in session.in_flight]
        for call in found:
            call.cancel(reason)
        return bool(found)

    def _named(self, session_id: str) -> list[Negotiated]:
        """Return the session with this id, or all running requests of a modern client by its record id."""
        if session_id.startswith(CLIENT_RECORD):
            return [exchange for exchange in self._sessions.values() if exchange.record_id == session_id]
        session = self._sessions.get(session_id)
        return [session] if session is not None else []

    def on_cancel(self, payload: dict[str, Any]) -> None:
        """Cancel the call that a broadcast from another process refers to.

        Stored calls are ignored here, because their workers cancel them.
        """
        if "session" in payload and "call" not in payload:
            self.cancel(payload["session"], payload["request_id"], payload.get("reason", ""))

    def on_credentials(self, payload: dict[str, Any]) -> None:
        """Cancel the calls of the ended OAuth connections that a broadcast refers to (AUTH-18)."""
        if payload.get("stops"):
            named = (*payload.get("connections", ()), *payload.get("replaced", ()))
            # Processes of the previous version send a single connection instead of lists.
            self.end_connections({payload.get("connection"), *named})

    def connections(self) -> frozenset[int]:
        """Return the ids of the OAuth connections that made the calls running in this process."""
        found = (call.principal.connection_id for call in self._all())
        return frozenset(each for each in found if each is not None)

    def end_connections(self, ended: Collection[object]) -> None:
        """Cancel the calls that were made through these OAuth connections."""
        for call in self._all():
            if call.principal.connection_id is not None and call.principal.connection_id in ended:
                call.cancel("the connection ended")

    def _all(self) -> list[RunningCall]:
        return [call for session in self._sessions.values() for call in session.in_flight.values()]

    async def close(self, seconds: float) -> None:
        """Wait up to ``seconds`` for running calls to finish, then stop those that have not."""
        await asyncio.sleep(0)  # A call that was just accepted gets its task with its first step.
        running = self._all()
        if await _still_running(running, seconds):
            for call in running:
                call.shut_down()
            await _still_running(running, 1)
        await self.runner.close()

    def _finished(self, call: RunningCall, seconds: float) -> None:
        share = share_of(Bound.RUNNING_CALLS, call.principal.key)
        running = self.shares[share] - 1
        if running:
            self.shares[share] = running
        else:
            del self.shares[share]
        if not call.session.in_flight:
            self._sessions.pop(call.session.id, None)
        tool = call.target if call.method == "tools/call" else ""
        self._counts.done(call.method, call.outcome, tool, seconds)
        if call.refusal:
            tally.refused(call.refusal)


async def _still_running(calls: list[RunningCall], seconds: float) -> bool:
    """Wait up to ``seconds`` for the calls to finish. Return True if any call still runs."""
    tasks = [call.task for call in calls if call.task is not None and not call.task.done()]
    return bool(tasks and (await asyncio.wait(tasks, timeout=seconds))[1])
