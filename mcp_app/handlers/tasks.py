"""The tasks extension of 2026-07-28: background calls whose clients poll for the outcome."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_app.catalogue.snapshots.entries import ToolEntry
from mcp_app.database.queries import aquery
from mcp_app.execution.admission.checks import Inline
from mcp_app.execution.calls.call import RunningCall
from mcp_app.execution.calls.context import Context
from mcp_app.execution.calls.results import error_result
from mcp_app.execution.keyed import rows
from mcp_app.execution.questions.inputs import Inputs
from mcp_app.execution.stored import client_tasks
from mcp_app.execution.stored.acceptance import new_call
from mcp_app.execution.stored.call_record import CallRecord, NewCall
from mcp_app.handlers.context import (
    CallerContext,
    Handler,
    Params,
    RequestContext,
    Result,
    progress_token,
    request_meta,
)
from mcp_app.protocol.capabilities import declares
from mcp_app.protocol.errors import InvalidParams, MissingCapability
from mcp_app.protocol.features import input_required
from mcp_app.protocol.features.tasks import EXTENSION, REQUIRED, Task
from mcp_app.protocol.messages import jsonrpc
from mcp_app.protocol.messages.trace_context import carried
from mcp_app.protocol.versions import is_modern

LONGEST_ID = 64
NEEDS_TASKS = "This needs the extension {}: declare it in the request's client capabilities."
# Tasks report progress and log messages to operators only. Clients poll the task (TASKX-17).
OPERATOR = {"progressToken": "task"}
OPERATOR_LEVEL = {"log_level": "info"}
CANCELLED = "cancelled by its client"


def declared(context: CallerContext) -> bool:
    """Return True if this request may be answered with a task (TASKX-02), which needs 2026-07-28."""
    session = context.session
    return is_modern(session.version) and declares(session.raw_capabilities, EXTENSION, session.version)


def require(context: CallerContext) -> None:
    """Raise MissingCapability unless the request declared the extension."""
    if not declared(context):
        raise MissingCapability(NEEDS_TASKS.format(EXTENSION), required=REQUIRED)


async def create(
    context: RequestContext, params: Params, entry: ToolEntry, arguments: dict[str, Any]
) -> None:
    """Answer tools/call with a stored task (TASKX-05), or with the result if the call finishes quickly.

    The client may then disconnect, because the request is complete.
    """
    services, session, meta = context.services, context.session, request_meta(params)
    progress_token(meta)
    if entry.asks_first is not None:
        path = context.catalogue.server.path
        asking = Inline.of(
            entry,
            context.principal,
            services.calls.shares,
            path=path,
            may_wait=True,
            counted=context.counted,
        )
        if asking.ticket is not None and (asked := context.inputs(params)) is not None:
            asking.ticket.round = asked.round
        await services.background.gate.admit_inline(asking)
        _ask_first(context, params, entry, arguments)
        return
    inputs = context.inputs(params)
    with context.telemetry(entry.name, meta) as telemetry:
        new = _new_task(context, entry, arguments, carried(meta, telemetry.context), inputs)
        call, start = await services.background.accept(new, inputs)
    context.log_if_waiting(call)
    answer = b""
    if not call.waits_for_approval:
        # TASKX-22: if the call finishes within the grace period, the client needs no further request.
        answer = await services.background.answer(call, start, services.settings.grace_seconds)
    if not answer:
        made = session.complete(context.method, client_tasks.created(call).created())
        answer = jsonrpc.encode_result(context.request_id, made)
        facts = (context.method, str(context.request_id), entry.name)
        services.log.single(session.record_id, context.principal.key, "out", "response", answer, *facts)
    context.reply.answer(answer)


def _ask_first(context: RequestContext, params: Params, entry: ToolEntry, arguments: dict[str, Any]) -> None:
    """Run ``asks_first``, whose questions the client answers by repeating this request (TASKX-15).

    Then create the task.
    """
    services = context.services
    seconds = services.settings.tool_timeout_seconds

    async def work(call: RunningCall, tool_context: Context) -> dict[str, Any]:
        stored = None
        try:
            if failed := await services.calls.runner.ask_first(entry, arguments, call, tool_context):
                return failed
            stored = await accepted(call)
            return client_tasks.created(stored).created()
        finally:
            # The request with the answers has the same idempotency key.
            if stored is None and context.place is not None:
                await aquery(rows.release, context.place)

    async def accepted(call: RunningCall) -> CallRecord:
        meta = carried(call.meta, call.telemetry.context)
        new = _new_task(context, entry, arguments, meta, call.inputs, counted=True)
        return (await services.background.accept(new))[0]

    context.run(
        params,
        target=entry.name,
        work=work,
        timeout=seconds,
        on_timeout=lambda: error_result(f"{entry.name} asked nothing in {seconds:g} seconds."),
    )


def _new_task(
    context: RequestContext,
    entry: ToolEntry,
    arguments: dict[str, Any],
    meta: dict[str, Any],
    inputs: Inputs | None,
    *,
    counted: bool = False,
) -> NewCall:
    return new_call(
        entry,
        arguments,
        context.principal,
        session_id=context.session.id,
        request_id=context.request_id,
        session_fields={**context.session.stored(), **OPERATOR_LEVEL},
        meta={**meta, **OPERATOR},
        task_seconds=context.services.settings.task_ttl_seconds,
        inputs=inputs,
        counted=counted or context.counted,
        place=context.place,
    )


async def get(context: RequestContext, params: Params) -> Result:
    """Return the state of a task (TASKX-06, TASKX-20)."""
    task, _ = await _task(context, params)
    return task.detailed()


async def cancel(context: RequestContext, params: Params) -> Result:
    """Request the cancellation of a task, and acknowledge the request at once (TASKX-10)."""
    _, call = await _task(context, params)
    await context.services.background.cancel_call(call.id, CANCELLED)
    return {}


async def update(context: RequestContext, params: Params) -> Result:
    """Store answers to a task's questions. Answers that match no question are ignored (TASKX-08)."""
    _, call = await _task(context, params)
    if "inputResponses" not in params:
        raise InvalidParams("tasks/update needs the member 'inputResponses', an object.")
    if responses := input_required.responses(params):
        await context.services.background.answer_task(call, responses)
    return {}


METHODS: Mapping[str, Handler] = {"tasks/get": get, "tasks/update": update, "tasks/cancel": cancel}


async def _task(context: RequestContext, params: Params) -> tuple[Task, CallRecord]:
    """Return the task named by a request, and its call. Checks the capability first (TASKX-12)."""
    require(context)
    task_id = params.get("taskId")
    if type(task_id) is not str:
        raise InvalidParams(f"{context.method} needs the member 'taskId', a string.")
    found = await context.services.background.task(task_id, context.principal.key, context.session.path)
    if found is None:
        raise InvalidParams(f"Task not found: {task_id[:LONGEST_ID]} is unknown or expired.")
    return found
