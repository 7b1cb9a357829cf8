"""resources/list, templates/list, read, subscribe and unsubscribe (specification: server/resources)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from functools import cache
from typing import Any

from mcp_app.catalogue.current import current
from mcp_app.catalogue.entries import ResourceEntry
from mcp_app.execution.call import Call
from mcp_app.execution.contents import to_contents
from mcp_app.execution.context import Context
from mcp_app.execution.runner import Runner
from mcp_app.handlers.context import Params, RequestContext, Result
from mcp_app.handlers.lists import page
from mcp_app.protocol.errors import InvalidParams, ResourceNotFound

MAX_URI = 2048


def list_resources(context: RequestContext, params: Params) -> Result:
    """RES-01."""
    return page("resources", context, params)


def list_templates(context: RequestContext, params: Params) -> Result:
    """TPL-01."""
    return page("templates", context, params)


def read(context: RequestContext, params: Params) -> Result:
    """RES-02, RES-03: permissions are checked before anything is read (RES-06)."""
    uri = _uri(params)
    entry, variables = _find(uri, context.principal.permissions)
    runner = context.services.calls.runner

    def work(call: Call, reading: Context) -> Awaitable[dict[str, Any]]:
        return _contents(runner, entry, uri, variables, call, reading)

    context.run(params, target=uri, work=work, read=read_for(runner))
    return None


@cache
def read_for(runner: Runner) -> Any:
    """How ``Context.read_resource`` reads for the caller of a call."""

    async def read_as_caller(call: Call, uri: str) -> dict[str, Any]:
        entry, variables = _find(uri, call.principal.permissions)
        reading = Context(call, lambda other: read_as_caller(call, other))
        return await _contents(runner, entry, uri, variables, call, reading)

    return read_as_caller


async def subscribe(context: RequestContext, params: Params) -> Result:
    """RES-08, RES-09: stored with the session, so any process may announce an update (RES-11)."""
    uri = _uri(params)
    _find(uri, context.principal.permissions)
    limit = context.services.settings.max_subscriptions
    if not await context.services.streams.sessions.add_subscription(context.session.id, uri, limit):
        raise InvalidParams(
            f"A session may subscribe to at most {limit} resources: unsubscribe from some first."
        )
    return {}


async def unsubscribe(context: RequestContext, params: Params) -> Result:
    """RES-08: an unknown subscription is no error."""
    await context.services.streams.sessions.remove_subscription(context.session.id, _uri(params))
    return {}


def _uri(params: Params) -> str:
    uri = params.get("uri")
    if type(uri) is not str or not uri:
        raise InvalidParams("The member 'uri' must be a non-empty string.")
    if len(uri) > MAX_URI:
        raise InvalidParams(f"A URI may have at most {MAX_URI} characters.")
    return uri


def _find(uri: str, permissions: Any) -> tuple[ResourceEntry, dict[str, str]]:
    found = current().resource(uri, permissions)
    if found is None:
        raise ResourceNotFound("Resource not found", data={"uri": uri})
    return found


async def _contents(
    runner: Runner, entry: ResourceEntry, uri: str, variables: dict[str, str], call: Call, context: Context
) -> dict[str, Any]:
    if entry.function is None:
        if entry.static is None:
            raise ResourceNotFound("Resource not found", data={"uri": uri})
        return {"contents": await asyncio.to_thread(entry.static, uri)}
    value = await runner.read_resource(entry.function, uri, dict(variables), call, context)
    return {"contents": to_contents(value, uri, entry.mime_type)}
