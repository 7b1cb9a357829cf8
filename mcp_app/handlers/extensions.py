"""Protocol extensions that one process serves. The server itself or an app defines an extension.

An extension is announced to clients of the revisions that have it. Its methods exist for these clients only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mcp_app.catalogue.definitions.extension import Extension, Method
from mcp_app.catalogue.definitions.registry import registry
from mcp_app.conf import Settings
from mcp_app.execution.calls.call import RunningCall
from mcp_app.execution.calls.context import Context
from mcp_app.execution.calls.json_values import jsonable
from mcp_app.handlers import tasks
from mcp_app.handlers.context import Handler, Params, RequestContext, Result
from mcp_app.protocol.downlevel import CACHE_HINTS
from mcp_app.protocol.errors import InternalError, InvalidParams, MethodNotFound, MissingCapability
from mcp_app.protocol.features.tasks import EXTENSION as TASKS
from mcp_app.protocol.versions import is_modern

# An extension's id, its settings, and the handlers of its methods.
Served = tuple[str, dict[str, Any], Mapping[str, Handler]]


def served(settings: Settings, version: str) -> Iterator[Served]:
    """Yield the extensions enabled at a revision."""
    # Tasks need Redis: without it there is no worker, and no call outlives its request.
    if is_modern(version) and settings.redis_url:
        yield TASKS, {}, tasks.METHODS
    for found in registry.extensions.values():
        if version in found.versions:
            handlers = {name: _handler(found, method) for name, method in found.methods.items()}
            yield found.id, found.settings, handlers


def announced(settings: Settings, version: str) -> dict[str, Any]:
    """Map the ids of the extensions that are announced to clients to their settings (CAP-05)."""
    return {name: capability for name, capability, _ in served(settings, version)}


def methods(settings: Settings, version: str) -> dict[str, Handler]:
    """Return the methods that extensions add to a revision."""
    return {name: handler for _, _, added in served(settings, version) for name, handler in added.items()}


def _handler(extension: Extension, method: Method) -> Handler:
    def handle(context: RequestContext, params: Params) -> Result:
        _admit(context, extension, method)
        arguments = {name: value for name, value in params.items() if name in method.names}
        if not method.input.is_valid(arguments):
            raise InvalidParams(f"{method.name}: {method.input.explain(arguments)}.")
        runner, modern = context.services.calls.runner, is_modern(context.version)

        async def work(call: RunningCall, method_context: Context) -> dict[str, Any]:
            value = await runner.run_method(method.function, arguments, call, method_context)
            hints = CACHE_HINTS if method.cacheable and modern else {}
            return {**hints, **_result(method, value)}

        # Methods of extensions cannot ask questions (MRTR-01), so only ``_meta`` is passed.
        meta = {"_meta": params["_meta"]} if "_meta" in params else {}
        context.run(meta, target=method.name, work=work)
        return None

    return handle


def _admit(context: RequestContext, extension: Extension, method: Method) -> None:
    """Raise an error unless the client declared the extension and the caller may use the method (EXT-03)."""
    version = context.version
    if not extension.is_for(context.session.raw_capabilities, version):
        if not is_modern(version):
            raise _not_found(method)
        raise MissingCapability(
            f"This needs the extension {extension.id}: declare it in the request's client capabilities.",
            required={"extensions": {extension.id: {}}},
        )
    if method.permission and method.permission not in context.principal.permissions:
        raise _not_found(method)


def _not_found(method: Method) -> MethodNotFound:
    return MethodNotFound(f"Method not found: {method.name}")


def _result(method: Method, value: Any) -> dict[str, Any]:
    try:
        found = jsonable({} if value is None else value)
    except TypeError as error:
        raise InternalError(f"The result of {method.name} has no JSON form.") from error
    if type(found) is not dict:
        raise InternalError(f"The result of {method.name} is no object.")
    return found
