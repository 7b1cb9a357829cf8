"""Conversion of a tool's return value or failure to a result in the form of revision 2025-11-25."""

from __future__ import annotations

import logging
import secrets
import sys
from typing import Any

import orjson

from mcp_app import conf
from mcp_app.catalogue.definitions.content import CONTENT_CLASSES, ToolResult, to_block
from mcp_app.catalogue.definitions.tool_limits import MIN_RESULT_BYTES as SHORT
from mcp_app.catalogue.snapshots.entries import ToolEntry
from mcp_app.execution.calls.json_values import (
    check_numbers,
    encodable,
    json_text,
    jsonable,
    plain_text,
    settle,
)
from mcp_app.execution.long_results.bounds import Size, marked, size_of
from mcp_app.observability import incidents
from mcp_app.protocol.errors import InternalError
from mcp_app.protocol.refusals import LIMIT_META, MEMBER, META

log = logging.getLogger("mcp.call")
Result = dict[str, Any]


def to_result(value: Any, entry: ToolEntry) -> Result:
    """Convert a tool's return value to a ``CallToolResult`` that matches its output schema (TOOL-16).

    If the value cannot be sent, the tool is at fault, so the result is an error result (TOOL-12). A result
    above the tool's bound is a ``LongResult``.
    """
    settings = conf.get()
    limit = settings.max_result_bytes
    if type(value) is str and entry.output is None and value.isascii() and len(value) <= limit:
        # The common case needs no further checks.
        result: Result = {"content": [{"type": "text", "text": value}]}
        size = Size(len(value), len(value))
        return result if len(value) <= SHORT else marked(result, entry, settings, size)
    try:
        result = _tool_result(value, entry)
    except (TypeError, ValueError) as error:
        log.warning("The result of tool %r cannot be sent: %s", entry.name, error)
        return error_result(f"The tool's result cannot be sent: {error}")
    size = size_of(result["content"])
    if size.total > limit:
        log.warning("The result of tool %r has %d bytes, the limit is %d", entry.name, size.total, limit)
        return error_result(f"The tool's result is too large: {size.total} bytes, at most {limit} are sent.")
    if isinstance(value, ToolResult) and value.content and "structuredContent" in result:
        text = len(orjson.dumps(result["structuredContent"]))  # Only here do text and structure differ.
        size = Size(size.text + text, size.total + text)
    return result if size.total <= SHORT else marked(result, entry, settings, size)


def error_result(text: str, refusal: str = "", data: dict[str, Any] | None = None) -> Result:
    """Return a result that reports a failure to the model (TOOL-12).

    ``refusal`` is the code of a refused call, and ``data`` are those of its error. Clients read them if a
    limit refused the call.
    """
    result = {"content": [{"type": "text", "text": encodable(text)}], "isError": True}
    if not refusal:
        return result
    limit = {name: data[name] for name in data if name != MEMBER} if data and "limit" in data else {}
    return {**result, "_meta": {META: refusal, **({LIMIT_META: limit} if limit else {})}}


def unexpected(method: str, target: str) -> InternalError:
    """Return the error that a client gets for an internal fault. It contains only the incident id (S25)."""
    return InternalError(f"Internal error (incident {incident(log, f'{method} {target!r}')}).")


def incident(logger: logging.Logger, failed: str) -> str:
    """Log the exception that is being handled under a new incident id, and return the id.

    Its details are recorded, so that the message log stores them with the answer that contains the id.
    """
    number, error = secrets.token_hex(4), sys.exception()
    if error is not None:
        incidents.record(incidents.Incident.of(number, error))
    try:
        logger.error("Incident %s: %s failed", number, failed, exc_info=error)
    except Exception:  # noqa: BLE001 - application code may raise what cannot be written, such as very deep groups
        logger.error("Incident %s: %s failed with %s", number, failed, type(error))  # noqa: TRY400
    return number


def _tool_result(value: Any, entry: ToolEntry) -> Result:
    if isinstance(value, ToolResult):
        return _explicit(value, entry)
    if entry.output is not None and not isinstance(value, CONTENT_CLASSES):
        return _structured(value, entry)
    if isinstance(value, str):
        return {"content": [{"type": "text", "text": encodable(value)}]}
    if value is None:
        # Some clients treat an empty list as a broken answer.
        return {"content": [{"type": "text", "text": "null"}]}
    value = settle(value)
    if _is_content(value):
        return {"content": _blocks(value)}
    written = plain_text(value)
    if written is None:
        value = jsonable(value)
        written = value if isinstance(value, str) else json_text(value)
    check_numbers(value, written)
    content = [{"type": "text", "text": written}]
    return (
        {"content": content, "structuredContent": value} if isinstance(value, dict) else {"content": content}
    )


def _structured(value: Any, entry: ToolEntry) -> Result:
    value = settle(value)
    structured = {"result": value} if entry.wraps_result else value
    # Copying to plain types takes longer than all other steps together, and most values are plain already.
    text = plain_text(structured)
    if text is None or not _fits(structured, entry):
        plain = jsonable(value)
        structured = {"result": plain} if entry.wraps_result else plain
        check_numbers(plain, json_text(plain))
        problem = entry.check_output(structured)
        if problem is not None:
            raise ValueError(f"it does not fit the tool's output schema ({problem}).")
        text = json_text(structured)
    check_numbers(value, text)
    # Clients whose revision has no structured content get the same JSON as text (TOOL-17).
    return {"content": [{"type": "text", "text": text}], "structuredContent": structured}


def _fits(structured: Any, entry: ToolEntry) -> bool:
    try:
        return entry.check_output(structured) is None
    except ValueError:  # The schema check does not support every type that can be encoded.
        return False


def _explicit(value: ToolResult, entry: ToolEntry) -> Result:
    result: Result = {"content": _blocks(value.content)}
    if value.is_error:
        result["isError"] = True
    if value.meta:
        result["_meta"] = jsonable(dict(value.meta))
    if value.structured is not None:
        plain = jsonable(settle(value.structured))
        check_numbers(plain, json_text(plain))
        structured = plain if isinstance(plain, dict) else {"result": plain}
        result["structuredContent"] = structured
        result["content"] = result["content"] or [{"type": "text", "text": json_text(structured)}]
    problem = None if value.is_error else entry.check_output(result.get("structuredContent"))
    if problem is not None:
        raise ValueError(f"it does not fit the tool's output schema ({problem}).")
    return result


def _is_content(value: Any) -> bool:
    """Return True for a content object, and for a list with at least one content object."""
    if isinstance(value, CONTENT_CLASSES):
        return True
    if not isinstance(value, (list, tuple)):
        return False
    return any(isinstance(item, CONTENT_CLASSES) for item in value)


def _blocks(value: Any) -> list[dict[str, Any]]:
    items = value if isinstance(value, (list, tuple)) else [value]
    return [_block(item) for item in items]


def _block(value: Any) -> dict[str, Any]:
    block = to_block(value)
    if block["type"] == "text":
        block["text"] = encodable(block["text"])
    return block
