"""The tasks of 2025-11-25: background calls whose clients poll for them within a session."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.conf import settings as django_settings

from mcp_app.auth.principal import LOOPBACK, Principal
from mcp_app.catalogue.snapshots.entries import ToolEntry
from mcp_app.conf import Settings
from mcp_app.execution.background import core_tasks
from mcp_app.execution.questions.inputs import Inputs
from mcp_app.execution.stored import client_tasks
from mcp_app.execution.stored.acceptance import new_call
from mcp_app.execution.stored.call_record import CallRecord
from mcp_app.handlers.context import (
    CallerContext,
    Handler,
    Params,
    RequestContext,
    Result,
    progress_token,
    request_meta,
)
from mcp_app.protocol.errors import InvalidParams, MethodNotFound, TooManyRequests
from mcp_app.protocol.features.tasks import Task
from mcp_app.protocol.messages.pagination import CursorCodec
from mcp_app.protocol.messages.trace_context import carried
from mcp_app.protocol.principal_key import Bound, share_of
from mcp_app.protocol.versions import V2025_11_25
from mcp_app.sessions.session import MADE_IN, task_home

LONGEST_ID = 64
# The minimum lifetime of a task. A shorter one would leave clients no time to query the task.
SHORTEST_TTL_MS = 1_000
NEEDS_TASK = "{} can only be called as a task: send the member 'task' with the request."
NO_TASK = "{} cannot be called as a task: send the request without the member 'task'."
CANCELLED = "cancelled by its client"


def capability(settings: Settings, version: str, principal: Principal) -> dict[str, Any] | None:
    """Return the capability ``tasks`` (TASK4-01), or None if tasks are not served.

    ``list`` is missing if callers cannot be distinguished (TASK4-06).
    """
    if not served(settings, version):
        return None
    listed: dict[str, Any] = {"list": {}} if is_known(principal) else {}
    return {**listed, "cancel": {}, "requests": {"tools": {"call": {}}}}


def served(settings: Settings, version: str) -> bool:
    """Return True if sessions of a revision have core tasks.

    Without Redis no call can outlive its request, so there are no tasks.
    """
    return version == V2025_11_25 and settings.core_tasks and bool(settings.redis_url)


def wanted(context: CallerContext, params: Params) -> bool:
    """Return True if a request asks for a task and tasks are served.

    If tasks are not served, the member ``task`` is ignored (TASK4-01).
    """
    return params.get("task") is not None and served(context.services.settings, context.session.version)


def check(context: CallerContext, params: Params, entry: ToolEntry) -> None:
    """Raise MethodNotFound for a tool that must or must not be called as a task (TASK4-02)."""
    if wanted(context, params):
        if not entry.background:
            raise MethodNotFound(NO_TASK.format(entry.name))
        _ttl(context, params)
    elif entry.task_required and served(context.services.settings, context.session.version):
        raise MethodNotFound(NEEDS_TASK.format(entry.name))


def _ttl(context: CallerContext, params: Params) -> float:
    """Return the lifetime of the requested task in seconds, within bounds (TASK4-12)."""
    task, most = params["task"], context.services.settings.task_ttl_seconds
    if type(task) is not dict:
        raise InvalidParams("The member 'task' must be an object.")
    wished = task.get("ttl")
    if wished is None:
        return most
    if type(wished) not in (int, float) or wished < 0:
        raise InvalidParams("The member 'ttl' of 'task' must be a number of milliseconds.")
    return float(min(max(wished, SHORTEST_TTL_MS) / 1000, most))


async def create(
    context: RequestContext, params: Params, entry: ToolEntry, arguments: dict[str, Any]
) -> Result:
    """Create and store a task, then return it (TASK4-03). A repeated request gets the same task (R7)."""
    services, session, meta = context.services, context.session, request_meta(params)
    progress_token(meta)
    with context.telemetry(entry.name, meta) as telemetry:
        call, _ = await services.background.accept(
            new_call(
                entry,
                arguments,
                context.principal,
                session_id=task_home(session.id),
                request_id=context.request_id,
                session_fields={**session.stored(), MADE_IN: session.id},
                meta=carried(meta, telemetry.context),
                task_seconds=_ttl(context, params),
                inputs=Inputs(),
                counted=context.counted,
                place=context.place,
            )
        )
    return {"task": client_tasks.created(call).core()}


async def get(context: RequestContext, params: Params) -> Result:
    """Return the state of a task (TASK4-04)."""
    task, _ = await _task(context, params)
    return task.core()


async def result(context: RequestContext, params: Params) -> Result:
    """Send the answer of the task's call, or a stream that any process can finish later (TASK4-05)."""
    _, call = await _task(context, params)
    log, said_by = context.services.log, (context.session.record_id, context.principal.key)
    facts = (context.method, str(context.request_id), call.tool)
    if not call.is_finished:
        # A request without its answer: the answer is sent by another process, which does not log it. The
        # log shows the task's own call as running.
        context.log_mark("request", call.tool)
        stream, start = await context.services.background.wait_for_task(
            call, context.session.id, context.request_id
        )
        context.reply.follow(stream, start.epoch)
        return None
    answer = core_tasks.answer(call, context.request_id)
    log.single(*said_by, "out", "response", answer, *facts)
    context.reply.answer(answer)
    return None


async def cancel(context: RequestContext, params: Params) -> Result:
    """Cancel a task before answering (TASK4-07). Raise InvalidParams if it has finished."""
    task, call = await _task(context, params)
    if not await context.services.background.end_task(call, CANCELLED):
        raise InvalidParams(f"Task {task.id} is over already and cannot be cancelled.")
    return (await _task(context, params))[0].core()


async def list_tasks(context: RequestContext, params: Params) -> Result:
    """Return a page of the principal's tasks, the newest first (TASK4-06)."""
    await _admit(context)
    services, principal = context.services, context.principal
    if not is_known(principal):
        raise MethodNotFound("Callers of this server cannot be distinguished, so tasks are not listed.")
    cursors, size = CursorCodec(django_settings.SECRET_KEY.encode()), max(1, services.settings.page_size)
    after = None
    if (cursor := params.get("cursor")) is not None:
        place, _ = cursors.decode("tasks", principal.key, cursor)
        at, _, key = place.partition(" ")
        after = (datetime.fromisoformat(at), UUID(key))
    tasks = await services.background.task_page(principal.key, context.session.path, after, size)
    page: dict[str, Any] = {"tasks": [task.core() for task in tasks[:size]]}
    if len(tasks) > size:
        page["nextCursor"] = cursors.encode("tasks", _place(tasks[size - 1]), principal.key, 0)
    return page


METHODS: Mapping[str, Handler] = {
    "tasks/get": get,
    "tasks/result": result,
    "tasks/cancel": cancel,
    "tasks/list": list_tasks,
}


def _place(task: Task) -> str:
    return f"{task.created_at.astimezone(UTC).isoformat()} {task.id}"


def is_known(principal: Principal) -> bool:
    """Return True if callers of this principal can be distinguished (TASK4-06)."""
    return principal.key != LOOPBACK.key


async def _admit(context: RequestContext) -> None:
    """Limit the rate of requests for tasks (TASK4-13)."""
    limit = context.services.settings.core_task_requests_per_minute
    share = share_of(Bound.TASK_REQUESTS, context.principal.key)
    if limit and not await context.services.streams.windows.hit(share, limit, 60):
        raise TooManyRequests(f"Rate limit: {limit} requests for tasks a minute.", retry_after=5)


async def _task(context: RequestContext, params: Params) -> tuple[Task, CallRecord]:
    """Return the task named by a request, and its call. Raise InvalidParams."""
    await _admit(context)
    task_id = params.get("taskId")
    if type(task_id) is not str:
        raise InvalidParams(f"{context.method} needs the member 'taskId', a string.")
    principal, path = context.principal.key, context.session.path
    found = await context.services.background.task(task_id, principal, path, core=True)
    if found is None:
        raise InvalidParams(f"Task not found: {task_id[:LONGEST_ID]} is unknown or expired.")
    return found
