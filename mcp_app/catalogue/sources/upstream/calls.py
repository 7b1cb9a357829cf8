"""Calls of tools of other servers: the session, messages of the server, and a checked result."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from mcp_app.catalogue.definitions.content import CannotAsk, ToolError, ToolResult
from mcp_app.catalogue.sources.upstream.conversation import Conversation
from mcp_app.catalogue.sources.upstream.known import KnownUpstream, known
from mcp_app.catalogue.sources.upstream.plan import UpstreamPlan
from mcp_app.catalogue.sources.upstream.session_keys import capabilities
from mcp_app.protocol.capabilities import ClientCapabilities
from mcp_app.protocol.client.faults import Kind, UpstreamFault
from mcp_app.protocol.errors import McpError, MissingCapability
from mcp_app.protocol.http.param_headers import ParamHeader, sent
from mcp_app.protocol.messages.meta import is_reserved_key, is_valid_key

_OWN_META: Final = "django-mcp/"
# The members of each kind of block, by whether a block needs them.
_BLOCKS: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "text": (("text",), ()),
    "image": (("data", "mimeType"), ()),
    "audio": (("data", "mimeType"), ()),
    "resource_link": (("uri", "name"), ("title", "description", "mimeType")),
}


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
    found = await known(plan.upstream)
    if found is None:
        raise ToolError(f"There is no upstream server {plan.upstream!r}: an administrator removed it.")
    if objection := found.objection(plan.tool, plan.definition):
        raise ToolError(f"The server {plan.upstream} {objection}")

    talk = Conversation(
        found, context, seconds=seconds or found.server.seconds, headers=sent(repeated, arguments)
    )
    try:
        return result_of(await talk.result("tools/call", {"name": plan.tool, "arguments": dict(arguments)}))
    except UpstreamFault as fault:
        raise error_of(fault, found) from None


def error_of(fault: UpstreamFault, found: KnownUpstream) -> ToolError:
    """Return the error for a failed request. A client may declare a missing capability and try again."""
    text = f"The server {found.server.name} {fault}"
    if fault.code != MissingCapability.code or not isinstance(fault.data, dict):
        return ToolError(text)
    with suppress(McpError):
        needed = ClientCapabilities.parse(fault.data.get("requiredCapabilities"))
        relayed = capabilities(found, needed)
        names = (f"{kind}_{mode}" for kind, modes in relayed.items() for mode in modes or ("",))
        if fields := tuple(name.rstrip("_") for name in names):
            return CannotAsk(text, fields)
    return ToolError(text)


def result_of(result: Mapping[str, Any]) -> ToolResult:
    """Return a result with known members only. Raise UpstreamFault if it is not valid."""
    content = result.get("content", [])
    if not isinstance(content, list):
        raise _invalid("a result without a list of content")
    meta = result.get("_meta")
    return ToolResult(
        content=[_block(block) for block in content],
        structured=result.get("structuredContent"),
        is_error=result.get("isError") is True,
        meta=_foreign(meta) if isinstance(meta, dict) else None,
    )


def _block(block: Any) -> dict[str, Any]:
    kind = str(block.get("type")) if isinstance(block, dict) else "none"
    found: dict[str, Any]
    if kind == "resource":
        found = {"resource": _contents(block.get("resource"))}
    elif kind in _BLOCKS:
        needed, optional = _BLOCKS[kind]
        found = {name: _text(block, name) for name in needed}
        found |= {name: _text(block, name) for name in optional if name in block}
        if kind == "resource_link" and type(block.get("size")) is int:
            found["size"] = block["size"]
    else:
        raise _invalid(f"content of the unknown type {kind[:40]!r}")
    for name in ("annotations", "_meta"):
        if isinstance(block.get(name), dict):
            found[name] = block[name]
    return {"type": kind, **found}


def _contents(found: Any) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise _invalid("an embedded resource without contents")
    contents = {"uri": _text(found, "uri")}
    if "mimeType" in found:
        contents["mimeType"] = _text(found, "mimeType")
    if "blob" in found:
        contents["blob"] = _text(found, "blob")
        try:
            base64.b64decode(contents["blob"], validate=True)
        except binascii.Error:
            raise _invalid("a resource that is not base64") from None
    else:
        contents["text"] = _text(found, "text")
    return contents


def _text(found: Mapping[str, Any], name: str) -> str:
    value = found.get(name)
    if not isinstance(value, str):
        raise _invalid(f"content without the text {name!r}")
    return value


def _foreign(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members that neither the protocol nor this server defines."""
    return {
        name: value
        for name, value in meta.items()
        if is_valid_key(name) and not is_reserved_key(name) and not name.startswith(_OWN_META)
    }


def _invalid(what: str) -> UpstreamFault:
    return UpstreamFault(Kind.INVALID, f"answered with {what}.")
