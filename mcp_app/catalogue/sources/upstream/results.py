"""Results of other servers with known members only. Their URIs become those by which clients find them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

from mcp_app.catalogue.definitions.content import ToolResult
from mcp_app.catalogue.sources.upstream.addresses import Address
from mcp_app.protocol.client.faults import Kind, UpstreamFault
from mcp_app.protocol.messages.meta import is_reserved_key, is_valid_key

_OWN_META: Final = "django-mcp/"
# The members of each kind of block, by whether a block needs them.
_BLOCKS: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "text": (("text",), ()),
    "image": (("data", "mimeType"), ()),
    "audio": (("data", "mimeType"), ()),
    "resource_link": (("uri", "name"), ("title", "description", "mimeType")),
}


def tool_result(result: Mapping[str, Any], address: Address) -> ToolResult:
    """Return the result of a tool. Raise UpstreamFault if it is not valid."""
    content = result.get("content", [])
    if not isinstance(content, list):
        raise _invalid("a result without a list of content")
    meta = result.get("_meta")
    return ToolResult(
        content=[_block(block, address) for block in content],
        structured=result.get("structuredContent"),
        is_error=result.get("isError") is True,
        meta=_foreign(meta) if isinstance(meta, dict) else None,
    )


def prompt_result(result: Mapping[str, Any], address: Address) -> dict[str, Any]:
    """Return the messages of a prompt. Raise UpstreamFault if they are not valid."""
    messages = result.get("messages")
    if not isinstance(messages, list):
        raise _invalid("a prompt without a list of messages")
    return {"messages": [_message(message, address) for message in messages]}


def contents(result: Mapping[str, Any], address: Address) -> list[dict[str, Any]]:
    """Return the contents of a resource. Raise UpstreamFault if they are not valid."""
    found = result.get("contents")
    if not isinstance(found, list) or not found:
        raise _invalid("a resource without a list of contents")
    return [_contents(each, address) for each in found]


def values(result: Mapping[str, Any]) -> list[str]:
    """Return the values of a completion. Raise UpstreamFault if they are not valid."""
    completion = result.get("completion")
    found = completion.get("values") if isinstance(completion, dict) else None
    if not isinstance(found, list):
        raise _invalid("a completion without a list of values")
    return [value for value in found if isinstance(value, str)]


def _message(message: Any, address: Address) -> dict[str, Any]:
    role = message.get("role") if isinstance(message, dict) else None
    if role not in ("user", "assistant"):
        raise _invalid("a message without a known role")
    return {"role": role, "content": _block(message.get("content"), address)}


def _block(block: Any, address: Address) -> dict[str, Any]:
    kind = str(block.get("type")) if isinstance(block, dict) else "none"
    found: dict[str, Any]
    if kind == "resource":
        found = {"resource": _contents(block.get("resource"), address)}
    elif kind in _BLOCKS:
        needed, optional = _BLOCKS[kind]
        found = {name: _text(block, name) for name in needed}
        found |= {name: _text(block, name) for name in optional if name in block}
        if kind == "resource_link":
            found["uri"] = address(found["uri"])
            found |= {"size": block["size"]} if type(block.get("size")) is int else {}
    else:
        raise _invalid(f"content of the unknown type {kind[:40]!r}")
    if isinstance(block.get("annotations"), dict):
        found["annotations"] = block["annotations"]
    if isinstance(block.get("_meta"), dict):
        found["_meta"] = _foreign(block["_meta"])
    return {"type": kind, **found}


def _contents(found: Any, address: Address) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise _invalid("an embedded resource without contents")
    told: dict[str, Any] = {"uri": address(_text(found, "uri"))}
    if "mimeType" in found:
        told["mimeType"] = _text(found, "mimeType")
    if "blob" in found:
        told["blob"] = _text(found, "blob")
        try:
            base64.b64decode(told["blob"], validate=True)
        except binascii.Error:
            raise _invalid("a resource that is not base64") from None
    else:
        told["text"] = _text(found, "text")
    if isinstance(found.get("_meta"), dict):
        told["_meta"] = _foreign(found["_meta"])
    return told


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
