"""resources/list, templates/list, read, subscribe and unsubscribe (specification: server/resources)."""

from __future__ import annotations

from functools import partial
from typing import Any

from mcp_app.execution.calls.call import RunningCall
from mcp_app.execution.calls.calls import Work
from mcp_app.execution.calls.context import Context
from mcp_app.execution.calls.reading import contents, find
from mcp_app.execution.calls.runner import Runner
from mcp_app.execution.long_results.keeping import is_address
from mcp_app.handlers.context import CallerContext, Params, RequestContext, Result
from mcp_app.handlers.lists import page
from mcp_app.protocol.errors import InvalidParams, ResourceNotFound

MAX_URI = 2048


def list_resources(context: CallerContext, params: Params) -> Result:
    """Return a page of resources (RES-01)."""
    return page("resources", context, params)


def list_templates(context: CallerContext, params: Params) -> Result:
    """Return a page of resource templates (TPL-01)."""
    return page("templates", context, params)


def read(context: RequestContext, params: Params) -> Result:
    """Start reading a resource (RES-02, RES-03). Permissions are checked before any read (RES-06)."""
    uri = _uri(params)
    runner = context.services.calls.runner
    try:
        entry, variables = find(context.catalogue, uri)
    except ResourceNotFound:
        if not is_address(uri):
            raise
        work: Work = partial(_stored_result, runner, uri)
    else:
        work = partial(contents, runner, entry, uri, variables)
    context.run(params, target=uri, work=work)
    return None


async def _stored_result(runner: Runner, uri: str, call: RunningCall, _context: Context) -> dict[str, Any]:
    return await runner.long_results.contents(uri, call.principal, call.catalogue.server.path)


async def subscribe(context: RequestContext, params: Params) -> Result:
    """Subscribe the session to a resource (RES-08, RES-09), so that any process may notify it (RES-11)."""
    uri = _uri(params)
    find(context.catalogue, uri)
    limit = context.services.settings.max_subscriptions
    if not await context.services.streams.sessions.add_subscription(context.session.id, uri, limit):
        raise InvalidParams(
            f"A session may subscribe to at most {limit} resources: unsubscribe from some first."
        )
    return {}


async def unsubscribe(context: RequestContext, params: Params) -> Result:
    """Unsubscribe the session. An unknown subscription is not an error (RES-08)."""
    await context.services.streams.sessions.remove_subscription(context.session.id, _uri(params))
    return {}


def _uri(params: Params) -> str:
    uri = params.get("uri")
    if type(uri) is not str or not uri:
        raise InvalidParams("The member 'uri' must be a non-empty string.")
    if len(uri) > MAX_URI:
        raise InvalidParams(f"A URI may have at most {MAX_URI} characters.")
    return uri
