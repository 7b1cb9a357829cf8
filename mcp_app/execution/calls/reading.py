"""Reading a resource with the caller's rights, for ``resources/read`` and for ``Context.read_resource``."""

from __future__ import annotations

from functools import cache
from typing import Any

from mcp_app.catalogue.snapshots.entries import ResourceEntry
from mcp_app.catalogue.snapshots.view import CatalogueView
from mcp_app.database.queries import aquery
from mcp_app.execution.calls.call import RunningCall
from mcp_app.execution.calls.contents import to_contents
from mcp_app.execution.calls.context import Context, ReadResource
from mcp_app.execution.calls.runner import Runner
from mcp_app.protocol.errors import ResourceNotFound


@cache
def read_for(runner: Runner) -> ReadResource:
    """Return the implementation of ``Context.read_resource`` for a runner."""

    async def read_as_caller(call: RunningCall, uri: str) -> dict[str, Any]:
        entry, variables = find(call.catalogue, uri)
        return await contents(runner, entry, uri, variables, call, Context(call, read_as_caller))

    return read_as_caller


def find(catalogue: CatalogueView, uri: str) -> tuple[ResourceEntry, dict[str, str]]:
    """Return a resource and the variables in its URI. Raise ResourceNotFound, also for a hidden resource."""
    found = catalogue.resource(uri)
    if found is None:
        raise ResourceNotFound("Resource not found", data={"uri": uri})
    return found


async def contents(
    runner: Runner,
    entry: ResourceEntry,
    uri: str,
    variables: dict[str, str],
    call: RunningCall,
    context: Context,
) -> dict[str, Any]:
    """Return the result of ``resources/read``."""
    if entry.function is None:
        if entry.static is None:
            raise ResourceNotFound("Resource not found", data={"uri": uri})
        return {"contents": await aquery(entry.static, uri)}
    value = await runner.read_resource(entry.function, uri, dict(variables), call, context)
    return {"contents": to_contents(value, uri, entry.mime_type)}
