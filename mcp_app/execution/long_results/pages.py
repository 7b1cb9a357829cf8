"""The whole of a long result as pages. Their texts joined are the whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import orjson

from mcp_app.execution.long_results.cutting import head

TEXT: Final = "text/plain"
JSON: Final = "application/json"


class Page(NamedTuple):
    """A page: part of a text, or the base64 data of one image, recording or file."""

    mime_type: str
    content: str
    is_blob: bool = False


def pages_of(result: dict[str, Any], room: int) -> list[Page]:
    """Return the pages of a result's blocks in order. Texts are divided into pages of ``room`` bytes.

    Structured content follows, unless a text block has the same JSON.
    """
    found = [page for block in result["content"] for page in _of_block(block, room)]
    if "structuredContent" in result:
        text = orjson.dumps(result["structuredContent"]).decode()
        if not any(block.get("text") == text for block in result["content"]):
            found += _divided(JSON, text, room)
    return found


def _of_block(block: dict[str, Any], room: int) -> Iterator[Page]:
    kind = block["type"]
    if kind == "text":
        yield from _divided(_type_of(block["text"]), block["text"], room)
    elif kind in ("image", "audio"):
        yield Page(block["mimeType"], block["data"], is_blob=True)
    elif kind == "resource" and "blob" in block["resource"]:
        resource = block["resource"]
        yield Page(resource.get("mimeType", "application/octet-stream"), resource["blob"], is_blob=True)
    elif kind == "resource":
        resource = block["resource"]
        yield from _divided(resource.get("mimeType", TEXT), resource.get("text", ""), room)
    else:
        yield Page(JSON, orjson.dumps(block).decode())


def _type_of(text: str) -> str:
    if text.lstrip()[:1] not in ("[", "{"):
        return TEXT
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return TEXT
    return JSON


def _divided(mime_type: str, text: str, room: int) -> Iterator[Page]:
    place = 0
    while place < len(text):
        part = head(text[place : place + room + _LOOK_AHEAD], room)
        yield Page(mime_type, part)
        place += len(part)


# A page must not end within a character of several code points, so a few more of them are looked at.
_LOOK_AHEAD: Final = 20
