"""Requests for entries of other servers: tools, prompts, resources and completion, with checked results."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from mcp_app.catalogue.definitions.content import CannotAsk, ToolError, ToolResult
from mcp_app.catalogue.sources.upstream import addresses, results
from mcp_app.catalogue.sources.upstream.accounts import (
    for_completion,
    more_scopes,
    where,
    with_account,
    with_more_scopes,
)
from mcp_app.catalogue.sources.upstream.conversation import Conversation
from mcp_app.catalogue.sources.upstream.kinds import PROMPTS
from mcp_app.catalogue.sources.upstream.known import KnownUpstream, known
from mcp_app.catalogue.sources.upstream.plan import UpstreamPlan
from mcp_app.catalogue.sources.upstream.session_keys import capabilities, completing
from mcp_app.protocol.capabilities import ClientCapabilities
from mcp_app.protocol.client.faults import InsufficientScope, Kind, UpstreamFault
from mcp_app.protocol.client.outgoing import Headers
from mcp_app.protocol.errors import McpError, MissingCapability, ResourceNotFound
from mcp_app.protocol.http.param_headers import ParamHeader, sent
from mcp_app.upstreams import client

COMPLETION_SECONDS: Final = 5.0

log = logging.getLogger("mcp.upstream")


async def called(
    plan: UpstreamPlan,
    arguments: Mapping[str, Any],
    context: Any,
    *,
    seconds: float | None,
    repeated: tuple[ParamHeader, ...],
) -> ToolResult:
    """Call the tool for the caller of ``context``, and return its result. Raise ToolError.

    ``seconds`` is the timeout of the tool itself. ``repeated`` are arguments that are sent as headers too.
    """
    params = {"name": plan.item, "arguments": dict(arguments)}
    headers = sent(repeated, arguments)
    found = await with_account(await _allowed(plan), context)
    try:
        result = await _asked(found, "tools/call", params, context, seconds=seconds, headers=headers)
        return results.tool_result(result, (await addresses.of(plan.upstream)).here)
    except UpstreamFault as fault:
        raise error_of(fault, found) from None


async def prompted(plan: UpstreamPlan, arguments: Mapping[str, str], context: Any) -> dict[str, Any]:
    """Return the messages of a prompt for the caller of ``context``. Raise ToolError."""
    found = await with_account(await _allowed(plan), context)
    params = {"name": plan.item, "arguments": dict(arguments)}
    try:
        result = await _asked(found, "prompts/get", params, context)
        return results.prompt_result(result, (await addresses.of(plan.upstream)).here)
    except UpstreamFault as fault:
        raise error_of(fault, found) from None


async def fetched(plan: UpstreamPlan, uri: str, context: Any) -> list[dict[str, Any]]:
    """Return the contents of a resource for the caller of ``context``.

    Raise ToolError, and FileNotFoundError for a resource that the server does not have.
    """
    found = await with_account(await _allowed(plan), context)
    try:
        result = await _asked(found, "resources/read", {"uri": uri}, context)
        return results.contents(result, (await addresses.of(plan.upstream)).here)
    except UpstreamFault as fault:
        if fault.code == ResourceNotFound.code:
            raise FileNotFoundError(uri) from None
        raise error_of(fault, found) from None


async def completed(plan: UpstreamPlan, argument: str, value: str, others: Mapping[str, str]) -> list[str]:
    """Return values that begin an argument of a prompt or template, or [] if the server has none."""
    kind = {"type": "ref/prompt", "name": plan.item}
    ref = kind if plan.kind is PROMPTS else {"type": "ref/resource", "uri": plan.item}
    params: dict[str, Any] = {"ref": ref, "argument": {"name": argument, "value": value}}
    if others:
        params["context"] = {"arguments": dict(others)}
    try:
        found = await for_completion(await _allowed(plan))
        return results.values(
            await client.completion(found.server, completing(found), params, COMPLETION_SECONDS)
        )
    except (ToolError, UpstreamFault) as error:
        log.info("The server %s completed nothing: %s", plan.upstream, error)
        return []


def error_of(fault: UpstreamFault, found: KnownUpstream) -> ToolError:
    """Return the error for a failed request. A client may declare a missing capability and try again."""
    text = f"The server {found.server.name} {fault}"
    if isinstance(fault, InsufficientScope) and found.user_connections:
        return ToolError(more_scopes(found, fault))
    if fault.kind == Kind.LOGIN and found.user_connections:
        return ToolError(f"{text} {where(found)}")
    if fault.code != MissingCapability.code or not isinstance(fault.data, dict):
        return ToolError(text)
    with suppress(McpError):
        needed = ClientCapabilities.parse(fault.data.get("requiredCapabilities"))
        relayed = capabilities(found, needed)
        names = (f"{kind}_{mode}" for kind, modes in relayed.items() for mode in modes or ("",))
        if fields := tuple(name.rstrip("_") for name in names):
            return CannotAsk(text, fields)
    return ToolError(text)


async def _allowed(plan: UpstreamPlan) -> KnownUpstream:
    """Return the server of an entry. Raise ToolError while the entry is refused."""
    found = await known(plan.upstream)
    if found is None:
        raise ToolError(f"There is no upstream server {plan.upstream!r}: an administrator removed it.")
    if objection := found.objection(plan.key, plan.definition):
        raise ToolError(f"The server {plan.upstream} {objection}")
    return found


async def _asked(
    found: KnownUpstream,
    method: str,
    params: Mapping[str, Any],
    context: Any,
    *,
    seconds: float | None = None,
    headers: Headers = (),
) -> dict[str, Any]:
    seconds = seconds or found.server.seconds
    try:
        return await Conversation(found, context, seconds=seconds, headers=headers).result(method, params)
    except InsufficientScope as fault:
        if not found.user_connections:
            raise
        found = await with_more_scopes(found, fault, context)
    # The request was not processed, so it is sent again after the login.
    return await Conversation(found, context, seconds=seconds, headers=headers).result(method, params)
