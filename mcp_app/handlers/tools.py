"""tools/list and tools/call (specification: server/tools)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextvars import copy_context
from functools import partial
from typing import Any

from mcp_app.catalogue.snapshots.entries import ToolEntry
from mcp_app.execution.admission.checks import Inline
from mcp_app.execution.admission.gate import checked_fields, limits_of, look, rules
from mcp_app.execution.calls.calls import Work
from mcp_app.execution.calls.results import error_result
from mcp_app.execution.stored.acceptance import new_call
from mcp_app.handlers import core_tasks, keyed, tasks
from mcp_app.handlers.context import (
    CallerContext,
    Params,
    RequestContext,
    Result,
    name_and_arguments,
    progress_token,
    request_meta,
)
from mcp_app.handlers.lists import built_page, page
from mcp_app.limits.limiter import Ticket, ticket_for
from mcp_app.limits.rules import Bucket
from mcp_app.protocol import downlevel
from mcp_app.protocol.errors import McpError
from mcp_app.protocol.messages import idempotency
from mcp_app.protocol.messages.trace_context import carried
from mcp_app.protocol.refusals import ANSWERS, Code, code_in
from mcp_app.protocol.versions import V2025_11_25, is_modern

# A call that is stopped may need so long to end. Then its place among concurrent calls is free in any case.
LATE_SECONDS = 60.0


def list_tools(context: CallerContext, params: Params) -> Result | Awaitable[Result]:
    """Return a page of tools (TOOL-01). If some must be built first, a thread makes the page."""
    return built_page("tools", context, params) or asyncio.to_thread(page, "tools", context, params)


def list_built_tools(context: CallerContext, params: Params) -> Result:
    """Return a page of tools, or None if some must be built first."""
    return built_page("tools", context, params)


def call_tool(context: RequestContext, params: Params) -> Result | Awaitable[Result]:
    """Call a tool in this process, as a background call or as a task (TOOL-07 to TOOL-12)."""
    name, arguments = name_and_arguments("tools/call", params)
    entry, refusal = look(context.catalogue, name, arguments)
    if entry.task_required and is_modern(context.version):
        tasks.require(context)
    core_tasks.check(context, params, entry)
    if refusal is not None:
        return _refusal_result(context, params, refusal)
    meta = params.get("_meta")
    if context.place is None and type(meta) is dict and idempotency.MEMBER in meta:
        return _call_once(context, params, entry, arguments)
    if entry.fixed_arguments:
        arguments = {**arguments, **entry.fixed_arguments}
    # The members of a batch share one stream, so their calls must run in this process.
    may_wait = context.services.background.available and not context.reply.shared
    if entry.background and may_wait:
        return _queue(context, params, entry, arguments)
    if any(checked_fields(entry)) or not _run_leased(context, params, entry, arguments):
        return _run_admitted(context, params, entry, arguments)
    return None


def call_inline(context: CallerContext, params: Params) -> Result | McpError:
    """Return the result of a tool that neither waits nor takes a context.

    For other calls, return None without effect.
    """
    found = _inline(context, params, may_wait=False)
    if found is None:
        return None
    if "_meta" in params:
        progress_token(request_meta(params))  # A token of the wrong type is refused.
    version, (entry, arguments) = context.session.version, found
    if rules.active:
        limits = limits_of(context.principal.key, entry, context.catalogue.server.path)
        if limits and not context.services.background.gate.limiter.leases.take_now(limits):
            return None
    try:
        runner = context.services.calls.runner
        result = copy_context().run(runner.run_inline, entry, arguments, version)
        if type(result) is not dict:
            path = context.catalogue.server.path
            result = runner.long_results.cut_now(result, entry, context.principal, path)
    except McpError as error:
        return error  # If it were raised, the caller would assume that the tool did not run.
    return downlevel.result("tools/call", result, version)


def begin(context: RequestContext, params: Params) -> bool:
    """Start a call that runs in this process, and run it up to its first wait.

    For other calls, return False without effect. If McpError is raised, nothing has started either.
    """
    found = _inline(context, params, may_wait=True)
    if found is None or found[0].task_required:
        return False
    return _run_leased(context, params, *found)


def _run_leased(context: RequestContext, params: Params, entry: ToolEntry, arguments: dict[str, Any]) -> bool:
    """Start a call that no rule limits, or that this process has leased. Return False for other calls."""
    limits: tuple[Bucket, ...] = ()
    leases = context.services.background.gate.limiter.leases
    if rules.active:
        limits = limits_of(context.principal.key, entry, context.catalogue.server.path)
        if limits and (context.counted or _continues(params) or not leases.take_now(limits)):
            return False
    try:
        _run(context, params, entry, arguments)
    except McpError:
        for bucket in limits:
            leases.give_back(bucket)
        raise
    return True


def _continues(params: Params) -> bool:
    """Return True if a request of 2026-07-28 may continue a call, which is then not counted again."""
    return "requestState" in params or "inputResponses" in params


def _inline(
    context: CallerContext, params: Params, *, may_wait: bool
) -> tuple[ToolEntry, dict[str, Any]] | None:
    """Return the tool and arguments of a call that needs no checks, questions or storage before it runs.

    Unless ``may_wait`` is True, the tool must neither wait nor take a context. Return None for other calls.
    """
    name, arguments = params.get("name"), params.get("arguments", {})
    if type(name) is not str or type(arguments) is not dict or "task" in params:
        return None
    entry, refusal = look(context.catalogue, name, arguments)
    if refusal is not None or any(checked_fields(entry)):
        return None
    if "_meta" in params and type(params["_meta"]) is dict and idempotency.MEMBER in params["_meta"]:
        return None
    if not may_wait and (not entry.function.never_waits or entry.function.context_name is not None):
        return None
    if ("requestState" in params or "inputResponses" in params) and is_modern(context.session.version):
        return None
    return entry, {**arguments, **entry.fixed_arguments} if entry.fixed_arguments else arguments


def _refusal_result(context: RequestContext, params: Params, refusal: McpError) -> Result:
    """Return a refusal as a tool error if the model should read it, else raise it (TOOL-09, TOOL-10).

    If the client asked for a task, no result could contain the tool error, so the refusal is raised. Before
    2025-11-25 invalid arguments are a protocol error and are raised as well.
    """
    code = refusal.refusal
    if not code or not ANSWERS[Code(code)].as_result or core_tasks.wanted(context, params):
        raise refusal
    if code == Code.INVALID_ARGUMENTS and context.version < V2025_11_25:
        raise refusal
    return error_result(refusal.message, code, refusal.data)


async def _call_once(
    context: RequestContext, params: Params, entry: ToolEntry, given: dict[str, Any]
) -> Result:
    """Start the call of a new idempotency key, or answer with the call that the key has started before."""
    key = idempotency.key_of(request_meta(params))
    limiter, ticket = context.services.background.gate.limiter, None
    try:
        # The limits come first, so that a limited caller causes no writes to the database.
        ticket = _ticket(context, params, entry)
        if ticket is not None and not await keyed.is_known(context, key):
            await limiter.admit(ticket)
            context.counted = True
        place = await keyed.reserve(context, entry, given, params, key)
        if not place.is_new:
            await limiter.give_back(ticket)
            return await keyed.repeat(context, params, entry, place)
    except McpError as refusal:
        await limiter.give_back(ticket)
        return _refusal_result(context, params, refusal)
    context.place = place.id
    try:
        started = call_tool(context, params)
        answer = await started if isinstance(started, Awaitable) else started
    except McpError:
        await keyed.release(place)
        await limiter.give_back(ticket)
        raise
    if code_in(answer):
        await keyed.release(place)
        await limiter.give_back(ticket)
    return answer


def _ticket(context: RequestContext, params: Params, entry: ToolEntry) -> Ticket | None:
    """Return the ticket of a call in its limits, except among concurrent calls."""
    ticket = ticket_for(context.principal.key, entry, context.catalogue.server.path, concurrent=False)
    if ticket is not None and (inputs := context.inputs(params)) is not None:
        ticket.round = inputs.round
    return ticket


async def _queue(
    context: RequestContext, params: Params, entry: ToolEntry, arguments: dict[str, Any]
) -> Result:
    context.session.check_free(context.request_id)
    try:
        if core_tasks.wanted(context, params):
            return await core_tasks.create(context, params, entry, arguments)
        if tasks.declared(context):
            await tasks.create(context, params, entry, arguments)
        else:
            await _accept(context, params, entry, arguments)
    except McpError as refusal:
        return _refusal_result(context, params, refusal)
    return None


async def _run_admitted(
    context: RequestContext, params: Params, entry: ToolEntry, arguments: dict[str, Any]
) -> Result:
    gate, seconds = context.services.background.gate, _seconds(context, entry)
    path = context.catalogue.server.path
    call = Inline.of(
        entry,
        context.principal,
        context.services.calls.shares,
        path=path,
        seconds=seconds + LATE_SECONDS,
        counted=context.counted,
    )
    if call.ticket is not None and (inputs := context.inputs(params)) is not None:
        call.ticket.round = inputs.round
    try:
        await gate.admit_inline(call)
    except McpError as refusal:
        return _refusal_result(context, params, refusal)
    ticket = call.ticket
    try:
        work = None
        if ticket is not None and ticket.ends:
            work = gate.limiter.until_end(ticket, _work(context, entry, arguments))
        _run(context, params, entry, arguments, work)
    except McpError:
        await gate.limiter.give_back(ticket)
        raise
    return None


async def _accept(
    context: RequestContext, params: Params, entry: ToolEntry, arguments: dict[str, Any]
) -> None:
    """Store and queue a background call, and follow its stream (R1)."""
    meta = request_meta(params)
    progress_token(meta)
    session, inputs = context.session, context.inputs(params)
    with context.telemetry(entry.name, meta) as telemetry:
        call, start = await context.services.background.accept(
            new_call(
                entry,
                arguments,
                context.principal,
                session_id=session.id,
                request_id=context.request_id,
                session_fields=session.stored(),
                # The worker continues the trace (META-09).
                meta=carried(meta, telemetry.context),
                inputs=inputs,
                counted=context.counted,
                place=context.place,
            ),
            inputs,
        )
    context.log_if_waiting(call)
    context.reply.follow(call.stream, start.epoch)


def _work(context: RequestContext, entry: ToolEntry, arguments: dict[str, Any]) -> Work:
    return partial(context.services.calls.runner.run_tool, entry, arguments)


def _seconds(context: RequestContext, entry: ToolEntry) -> float:
    return entry.timeout or context.services.settings.tool_timeout_seconds


def _run(
    context: RequestContext,
    params: Params,
    entry: ToolEntry,
    arguments: dict[str, Any],
    work: Work | None = None,
) -> None:
    seconds = entry.timeout or context.services.settings.tool_timeout_seconds
    waits = work is not None or context.place is not None or not entry.function.never_waits
    work = work or partial(context.services.calls.runner.run_tool, entry, arguments)
    context.run(
        params,
        target=entry.name,
        work=work if context.place is None else keyed.kept(context.place, work),
        timeout=seconds,
        on_timeout=lambda: error_result(f"{entry.name} timed out after {seconds:g} seconds and was stopped."),
        waits=waits,
    )
