"""What prompt and resource functions may return, as wire messages and contents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from pydantic import BaseModel

from mcp_app.catalogue.content import File, Message, resource_contents, to_block
from mcp_app.protocol.errors import InternalError


def to_messages(value: Any) -> list[dict[str, Any]]:
    """The ``messages`` of prompts/get: from text, content, a Message, a wire message, or a list of these."""
    items = value if isinstance(value, list | tuple) else [value]
    try:
        return [_message(item) for item in items]
    except TypeError as error:
        raise InternalError("The prompt's function returned something that is no message.") from error


def _message(item: Any) -> dict[str, Any]:
    if isinstance(item, Message):
        return item.to_wire()
    if isinstance(item, Mapping) and "role" in item:
        return {"role": item["role"], "content": to_block(item["content"])}
    return {"role": "user", "content": to_block(item)}


def to_contents(value: Any, uri: str, mime_type: str) -> list[dict[str, Any]]:
    """The ``contents`` of resources/read: text, bytes, File, JSON values, or a list of File (a directory)."""
    if isinstance(value, list | tuple) and value and all(isinstance(item, File) for item in value):
        return [item.to_contents(uri, mime_type) for item in value]
    if isinstance(value, File):
        return [value.to_contents(uri, mime_type)]
    if isinstance(value, str | bytes):
        return [resource_contents(value, uri=uri, mime_type=mime_type)]
    return [resource_contents(_json(value), uri=uri, mime_type=mime_type or "application/json")]


def _json(value: Any) -> str:
    if isinstance(value, BaseModel):
        return value.model_dump_json()
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError as error:
        raise InternalError("The resource's function returned something that has no JSON form.") from error
