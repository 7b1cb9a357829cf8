"""The reading of answers: status, content type and mapping decide the result of a call."""

from __future__ import annotations

import base64
import codecs
import hashlib
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import orjson

from mcp_app.catalogue.definitions.content import Audio, File, Image, ToolError, ToolResult
from mcp_app.catalogue.sources.http.mapping import MAX_INPUT_BYTES, MappingError, mapped
from mcp_app.catalogue.sources.http.plan import RequestPlan

MAX_ERROR_BYTES: Final = 2_048
_TEXT_TYPES: Final = frozenset(
    ("application/xml", "application/yaml", "application/javascript", "application/x-ndjson")
)
# Codecs of Python that are not charsets. The first two take time that grows with the square of the length.
_NOT_CHARSETS: Final = frozenset(("punycode", "idna", "unicode_escape", "raw_unicode_escape", "undefined"))
# JSON is read to more levels than it is written.
_TOO_DEEP: Final = "The server's answer is nested too deeply."


@dataclass(frozen=True, slots=True)
class Received:
    """A complete answer. Names of ``headers`` are in lower case. ``cut``: the body was longer."""

    status: int
    content_type: str = ""
    charset: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    cut: bool = False

    def header(self, name: str) -> str:
        """Return the first value of a header, or ""."""
        return next((value for key, value in self.headers if key == name), "")

    @property
    def is_json(self) -> bool:
        """True for JSON."""
        return self.content_type == "application/json" or self.content_type.endswith("+json")

    @property
    def is_text(self) -> bool:
        """True for text that is not JSON."""
        return (
            self.content_type.startswith("text/")
            or self.content_type.endswith("+xml")
            or self.content_type in _TEXT_TYPES
        )


def json_of(received: Received) -> Any:
    """Return the parsed body. Raises ToolError if it is not JSON."""
    try:
        return orjson.loads(received.body)
    except orjson.JSONDecodeError:
        try:
            received.body.decode()
        except UnicodeDecodeError:
            raise ToolError("The server's answer is not valid UTF-8, so it was not read as JSON.") from None
        raise ToolError("The server's answer is not valid JSON.") from None


def result_of(plan: RequestPlan, received: Received, pick: Any = None) -> ToolResult:
    """Return the result of a successful answer. Raises ToolError if its type is not the declared one."""
    if plan.method == "HEAD":
        shown = {name: value for name, value in received.headers if name in _HEAD_HEADERS}
        return structured_result(plan, {"status": received.status, "headers": shown})
    if not received.body:
        return ToolResult(f"Done ({received.status}).")
    mode = plan.result.mode
    if mode == "structured" or (mode == "auto" and received.is_json):
        if not received.is_json:
            raise ToolError(
                f"The server answered with {_named(received.content_type)}, but JSON was expected."
            )
        return structured_result(plan, mapped_value(plan, json_of(received), len(received.body)), pick)
    if mode == "text" or (mode == "auto" and received.is_text):
        return ToolResult(_framed(plan, text_of(received)))
    return ToolResult(_file(received))


_HEAD_HEADERS: Final = frozenset(("content-type", "content-length", "last-modified", "etag", "location"))


def mapped_value(plan: RequestPlan, value: Any, size: int) -> Any:
    """Return the mapped answer. Raises ToolError."""
    if not plan.result.mapping:
        return value
    if size > MAX_INPUT_BYTES:
        raise ToolError(
            f"The answer has {size} bytes: at most {MAX_INPUT_BYTES} can be mapped. Ask for less."
        )
    try:
        return mapped(plan.result.mapping, value)
    except MappingError as error:
        raise ToolError(str(error)) from None


def structured_result(plan: RequestPlan, value: Any, pick: Any = None) -> ToolResult:
    """Return a result with structured content, and the same JSON as text."""
    try:
        value = picked(value, pick)
        text = value if isinstance(value, str) else orjson.dumps(value).decode()
    except (RecursionError, TypeError):
        raise ToolError(_TOO_DEEP) from None
    return ToolResult(_framed(plan, text), structured=value if isinstance(value, dict) else {"result": value})


def picked(value: Any, names: Any) -> Any:
    """Return an object, or each object of a list, with the named members only."""
    if not isinstance(names, list) or not names:
        return value
    if isinstance(value, dict):
        if not value.keys() & set(names):
            return {name: picked(member, names) for name, member in value.items() if _holds(member)}
        return {name: member for name, member in value.items() if name in names}
    return [picked(item, names) for item in value] if isinstance(value, list) else value


def _holds(member: Any) -> bool:
    return isinstance(member, list) and any(isinstance(item, dict) for item in member)


def text_of(received: Received) -> str:
    """Return the body as text. Raises ToolError if it is not in its charset."""
    charset = received.charset or "utf-8"
    try:
        if codecs.lookup(charset).name in _NOT_CHARSETS:
            raise LookupError(charset)
        return received.body.decode(charset)
    except LookupError:
        raise ToolError("The server's answer has an unknown charset.") from None
    except UnicodeError:
        raise ToolError(f"The server's answer is not valid {charset.upper()[:20]}.") from None


def _framed(plan: RequestPlan, text: str) -> str:
    return "\n".join(part for part in (plan.result.prepend, text, plan.result.append) if part)


def _file(received: Received) -> Image | Audio | File:
    kind = received.content_type or "application/octet-stream"
    if kind.startswith("image/"):
        return Image(received.body, kind)
    if kind.startswith("audio/"):
        return Audio(received.body, kind)
    digest = base64.urlsafe_b64encode(hashlib.sha256(received.body).digest()).decode().rstrip("=")
    # A name by content (RFC 6920): the request's address could hold arguments.
    return File(received.body, kind, f"ni:///sha-256;{digest}")


def error_of(plan: RequestPlan, received: Received) -> ToolError:
    """Return the error for an answer that is not a success: its status, and a bounded, mapped body."""
    try:
        phrase = " " + HTTPStatus(received.status).phrase
    except ValueError:
        phrase = ""
    text = f"The server answered {received.status}{phrase}."
    if received.status in (401, 403) and plan.credential:
        text += " The connection's credential was refused: an administrator must check it."
    elif 300 <= received.status < 400 and received.header("location"):
        text += " It redirects to another address, which is not followed."
    body = _error_body(plan, received)
    return ToolError(f"{text}\n{body}" if body else text)


def _error_body(plan: RequestPlan, received: Received) -> str:
    if not (received.is_json or received.is_text) or not received.body:
        return ""
    text = received.body.decode("utf-8", "replace")
    if received.is_json and plan.result.error_mapping and not received.cut:
        try:
            value = mapped(plan.result.error_mapping, json_of(received))
            value = value if value is None or isinstance(value, str) else orjson.dumps(value).decode()
        except (MappingError, ToolError, TypeError):
            value = None
        if value is not None:
            text = value
    data = text.strip().encode("utf-8", "replace")
    if len(data) <= MAX_ERROR_BYTES:
        return data.decode()
    return data[:MAX_ERROR_BYTES].decode("utf-8", "ignore") + " …"


def _named(content_type: str) -> str:
    return content_type[:80] or "no content type"
