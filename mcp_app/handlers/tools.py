"""tools/list and tools/call (specification: server/tools)."""

from __future__ import annotations

from collections.abc import Awaitable
from contextvars import copy_context
from functools import partial
from typing import Any

from mcp_app.catalogue.serving.entries import ToolEntry
from mcp_app.execution.asking.request_state import spend
from mcp_app.execution.running.results import error_result
from mcp_app.execution.stored.acceptance import new_call
from mcp_app.handlers import core_tasks, tasks
from mcp_app.handlers.context import (
    Asked,
    Params,
    RequestContext,
    Result,
    name_and_arguments,
    progress_token,
    request_meta,
)
from mcp_app.handlers.lists import page
from mcp_app.protocol import downlevel
from mcp_app.protocol.errors import InvalidParams, McpError
from mcp_app.protocol.messages.trace_context import carried
from mcp_app.protocol.principal_key import Bound, share_of
from mcp_app.protocol.versions import V2025_11_25, is_modern

NO_WAITING = (
    "{} needs an operator's approval, and this call cannot wait for it: "
    "send it by itself, not in a batch, to a server with a worker."
)
UNKNOWN_ASKER = (
    "{} has to be approved by somebody else than asks: call it with an API key, which says who asks."
)


def list_tools(context: Asked, params: Params) -> Result:
    """TOOL-01."""
    return page("tools", context, params)


def call_tool(context: RequestContext, params: Params) -> Result | Awaitable[Result]:
    """TOOL-07 to TOOL-12."""
    name, arguments = name_and_arguments("tools/call", params)
    entry = context.catalogue.tool(name)
    if entry is None:
        raise InvalidParams(
            f"Unknown tool: {name[:128]}", data={"kind": "tool_not_found", "name": name[:128]}
        )
    if entry.task_required and is_modern(context.version):
        tasks.require(context)
    core_tasks.check(context, params, entry)
    problem = entry.check(arguments)
    if problem is not None:
        return _invalid(context, params, problem)
    if entry.calls_per_minute is not None:
        return _limited(context, params, entry, arguments)
    return _start(context, params, entry, arguments)


def call_at_once(context: Asked, params: Params) -> Result | McpError:
    """The result of a tool that can neither wait nor speak on the way; None, and nothing done, else."""
    entry = _inline(context, params, may_wait=False)
    if entry is None:
        return None
    if "_meta" in params:
        progress_token(request_meta(params))  # One of the wrong type is refused.
    version, arguments = context.session.version, _arguments(entry, params)
    try:
        runner = context.services.calls.runner
        result = copy_context().run(runner.run_at_once, entry, arguments, version)
    except McpError as error:
        return error  # Not raised: that would say that nothing was done.
    return downlevel.result("tools/call", result, version)


def begin(context: RequestContext, params: Params) -> bool:
    """Begin a call that runs in this process, up to its first wait; False, and nothing done, for others.

    Raises McpError when nothing was done, too.
    """
    entry = _inline(context, params, may_wait=True)
    if entry is None or entry.needs_approval or entry.task_required:
        return False
    _run(context, params, entry, _arguments(entry, params))
    return True


def _inline(context: Asked, params: Params, *, may_wait: bool) -> ToolEntry | None:
    """The tool of a good call that nothing has to be asked or stored for before it runs here.

    Unless it ``may_wait``, one that can neither wait nor speak on the way.
    """
    name, arguments = params.get("name"), params.get("arguments", {})
    if type(name) is not str or type(arguments) is not dict:
        return None
    entry = context.catalogue.tool(name)
    if entry is None or "task" in params or entry.background or entry.calls_per_minute is not None:
        return None
    if not may_wait and (not entry.function.never_waits or entry.function.context_name is not None):
        return None
    if ("requestState" in params or "inputResponses" in params) and is_modern(context.session.version):
        return None
    return entry if entry.check(arguments) is None else None


def _arguments(entry: ToolEntry, params: Params) -> dict[str, Any]:
    """What the tool is called with."""
    arguments: dict[str, Any] = params.get("arguments", {})
    return {**arguments, **entry.fixed_arguments} if entry.fixed_arguments else arguments


def _invalid(context: RequestContext, params: Params, problem: str) -> Result:
    """Before 2025-11-25 wrong arguments are a protocol error, since then a tool error (TOOL-09, TOOL-10)."""
    if context.version < V2025_11_25:
        raise InvalidParams(problem)
    return _refused(context, params, problem)


def _refused(context: RequestContext, params: Params, words: str) -> Result:
    """A tool error; a protocol error if the client asked for a task, which has no result to carry it."""
    if core_tasks.wanted(context, params):
        raise InvalidParams(words)
    return error_result(words)


async def _limited(
    context: RequestContext, params: Params, entry: ToolEntry, arguments: dict[str, Any]
) -> Result:
    limit = entry.calls_per_minute or 0
    share = share_of(Bound.CALLS_PER_MINUTE, context.principal.key, entry.name)
    if not await context.services.streams.windows.hit(share, limit, 60):
        words = f"Rate limit: {entry.name} may be called {limit} times a minute. Try again later."
        return _refused(context, params, words)
    started = _start(context, params, entry, arguments)
    return await started if isinstance(started, Awaitable) else started


def _start(
    context: RequestContext, params: Params, entry: ToolEntry, arguments: dict[str, Any]
) -> Result | Awaitable[Result]:
    if entry.fixed_arguments:
        arguments = {**arguments, **entry.fixed_arguments}
    # The members of a batch share one stream, so they run here.
    may_wait = context.services.background.available and not context.reply.shared
    if entry.needs_approval and (objection := _objection(context, entry, may_wait)):
        return _refused(context, params, objection)
    if entry.background and may_wait:
        context.session.check_free(context.request_id)
        if core_tasks.wanted(context, params):
            return core_tasks.create(context, params, entry, arguments)
        if tasks.declared(context):
            return tasks.create(context, params, entry, arguments)
        return _accept(context, params, entry, arguments)
    _run(context, params, entry, arguments)
    return None


def _objection(context: RequestContext, entry: ToolEntry, may_wait: bool) -> str:
    """Why a call that needs approval can never get it; it must not run without, so it does not."""
    if not may_wait:
        return NO_WAITING.format(entry.name)
    if entry.four_eyes and context.principal.user_id is None:
        return UNKNOWN_ASKER.format(entry.name)
    return ""


async def _accept(
    context: RequestContext, params: Params, entry: ToolEntry, arguments: dict[str, Any]
) -> None:
    """A background call: stored, queued, and followed on its own stream (R1)."""
    meta = request_meta(params)
    progress_token(meta)
    session, inputs = context.session, context.inputs(params)
    if inputs is not None:
        await spend(context.services.streams, inputs, context.services.settings)
    with context.telemetry(entry.name, meta) as telemetry:
        call, start = await context.services.background.accept(
            new_call(
                entry,
                arguments,
                context.principal,
                session_id=session.id,
                request_id=context.request_id,
                session_fields=session.stored(),
                # The worker goes on with the trace (META-09).
                meta=carried(meta, telemetry.context),
                inputs=inputs,
            )
        )
    context.note_if_waiting(call)
    context.reply.follow(call.stream, start.epoch)


def _run(context: RequestContext, params: Params, entry: ToolEntry, arguments: dict[str, Any]) -> None:
    seconds = entry.timeout or context.services.settings.tool_timeout_seconds
    context.run(
        params,
        target=entry.name,
        work=partial(context.services.calls.runner.run_tool, entry, arguments),
        timeout=seconds,
        on_timeout=lambda: error_result(f"{entry.name} timed out after {seconds:g} seconds and was stopped."),
        waits=not entry.function.never_waits,
    )
