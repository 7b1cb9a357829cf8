"""Conversion of the return values of prompts and resources to wire messages and contents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_app import conf
from mcp_app.catalogue.definitions.content import File, Message, resource_contents, to_block
from mcp_app.execution.calls.json_values import encodable, json_text, jsonable
from mcp_app.protocol.errors import InternalError, ResourceNotFound


def to_messages(value: Any) -> list[dict[str, Any]]:
    """Convert text, content, a message or a list of these to the ``messages`` of prompts/get.

    A dict with ``messages`` is treated like that list. Raise InternalError for any other value.
    """
    if isinstance(value, Mapping) and "messages" in value:
        value = value["messages"]
    items = value if isinstance(value, list | tuple) else [value]
    try:
        return [_message(item) for item in items]
    except (TypeError, ValueError) as error:
        raise InternalError(f"The prompt's result cannot be sent: {error}") from error


def _message(item: Any) -> dict[str, Any]:
    if isinstance(item, Message):
        return {"role": item.role, "content": _block(item.content)}
    if isinstance(item, Mapping) and "role" in item:
        if item["role"] not in ("user", "assistant"):
            raise ValueError("a message has the role 'user' or 'assistant'")
        return {"role": item["role"], "content": _block(item.get("content"))}
    return {"role": "user", "content": _block(item)}


def _block(value: Any) -> dict[str, Any]:
    block = to_block(value)
    if isinstance(block.get("text"), str):
        block["text"] = encodable(block["text"])
    return block


def to_contents(value: Any, uri: str, mime_type: str) -> list[dict[str, Any]]:
    """Convert text, bytes, a File, JSON values or a list of Files to the ``contents`` of resources/read.

    Raise ResourceNotFound for None. Raise InternalError for a value that cannot be sent or is too large.
    """
    if value is None:
        raise ResourceNotFound("Resource not found", data={"uri": uri})
    items = value if isinstance(value, list | tuple) and value and all(map(_is_item, value)) else [value]
    try:
        contents = [_contents(item, uri, mime_type) for item in items]
    except ValueError as error:
        raise InternalError(f"The resource cannot be sent: {error}") from error
    size = sum(len(item.get("text") or item.get("blob") or "") for item in contents)
    if size > (limit := conf.get().max_result_bytes):
        raise InternalError(f"The resource is too large: more than {limit} bytes.")
    return contents


def _is_item(value: Any) -> bool:
    ready = isinstance(value, Mapping) and "uri" in value and ("text" in value or "blob" in value)
    return ready or isinstance(value, File)


def _contents(value: Any, uri: str, mime_type: str) -> dict[str, Any]:
    if isinstance(value, File):
        return value.to_contents(uri, mime_type)
    if _is_item(value):
        return dict(value)
    if isinstance(value, str):
        return resource_contents(encodable(value), uri=uri, mime_type=mime_type or "text/plain")
    if isinstance(value, bytes):
        return File(value).to_contents(uri, mime_type or "application/octet-stream")
    return resource_contents(_json(value), uri=uri, mime_type=mime_type or "application/json")


def _json(value: Any) -> str:
    try:
        return json_text(jsonable(value))
    except TypeError as error:
        raise InternalError("The resource's function returned something that has no JSON form.") from error
