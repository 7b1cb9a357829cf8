"""tools/list and tools/call (specification: server/tools)."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from mcp_app.catalogue.current import current
from mcp_app.catalogue.entries import ToolEntry
from mcp_app.execution.call import Call
from mcp_app.execution.context import Context
from mcp_app.execution.results import error_result
from mcp_app.handlers.context import Params, RequestContext, Result
from mcp_app.handlers.lists import page
from mcp_app.handlers.resources import read_for
from mcp_app.protocol.errors import InvalidParams
from mcp_app.protocol.versions import V2025_11_25


def list_tools(context: RequestContext, params: Params) -> Result:
    """TOOL-01."""
    return page("tools", context, params)


def call_tool(context: RequestContext, params: Params) -> Result | Awaitable[Result]:
    """TOOL-07 to TOOL-12."""
    name = params.get("name")
    if type(name) is not str:
        raise InvalidParams("tools/call needs the member 'name', a string.")
    arguments = params.get("arguments", {})
    if type(arguments) is not dict:
        raise InvalidParams("The member 'arguments' must be an object.")
    entry = current().tool(name, context.principal.permissions)
    if entry is None:
        raise InvalidParams(
            f"Unknown tool: {name[:128]}", data={"kind": "tool_not_found", "name": name[:128]}
        )
    problem = entry.check(arguments)
    if problem is not None:
        return _invalid(context, problem)
    if entry.calls_per_minute is not None:
        return _limited(context, params, entry, arguments)
    _start(context, params, entry, arguments)
    return None


def _invalid(context: RequestContext, problem: str) -> Result:
    """Before 2025-11-25 wrong arguments are a protocol error, since then a tool error (TOOL-09, TOOL-10)."""
    if context.version < V2025_11_25:
        raise InvalidParams(problem)
    return error_result(problem)


async def _limited(
    context: RequestContext, params: Params, entry: ToolEntry, arguments: dict[str, Any]
) -> Result:
    limit = entry.calls_per_minute or 0
    key = f"tool/{entry.name}/{context.principal.key}"
    if not await context.services.streams.windows.hit(key, limit, 60):
        return error_result(
            f"Rate limit: {entry.name} may be called {limit} times a minute. Try again later."
        )
    _start(context, params, entry, arguments)
    return None


def _start(context: RequestContext, params: Params, entry: ToolEntry, arguments: dict[str, Any]) -> None:
    if entry.fixed_arguments:
        arguments = {**arguments, **entry.fixed_arguments}
    runner = context.services.calls.runner
    seconds = entry.timeout or context.services.settings.tool_timeout_seconds

    def work(call: Call, tool_context: Context) -> Awaitable[dict[str, Any]]:
        return runner.run_tool(entry, arguments, call, tool_context)

    context.run(
        params,
        target=entry.name,
        work=work,
        read=read_for(runner),
        timeout=seconds,
        on_timeout=lambda: error_result(f"{entry.name} timed out after {seconds:g} seconds and was stopped."),
    )
