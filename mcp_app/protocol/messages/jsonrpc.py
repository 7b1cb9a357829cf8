"""JSON-RPC 2.0 messages: parsing within limits, and encoding.

``parse`` runs for every request. If a short body is equal to its own re-encoding, it is valid and needs no
further check. Any other body is walked through once to count its values. Duplicate keys and huge numbers
are rare. Usually counts over the raw bytes can rule them out. Only if they cannot, the body is examined
exactly.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import orjson

from mcp_app.protocol.errors import (
    InternalError,
    InvalidParams,
    InvalidRequest,
    McpError,
    ParseError,
    PayloadTooLarge,
    PeerError,
)

Id = str | int
NO_ID: Final = None

_OPENING = re.compile(rb'\{"jsonrpc":"2\.0","id":("(?:[^"\\]|\\.)*"|-?[0-9]+),')
MAX_SAFE_INTEGER: Final = 2**53 - 1


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits for one message. A body that exceeds any of them is refused."""

    body_bytes: int = 4 * 1024 * 1024
    depth: int = 64
    members: int = 10_000
    string_bytes: int = 1024 * 1024
    number_digits: int = 64
    batch: int = 50


# Messages must not be changed. They are not frozen, because a frozen dataclass takes three times as long to
# create.
@dataclass(slots=True)
class Request:
    """A message that must be answered."""

    id: Id
    method: str
    params: dict[str, Any]


@dataclass(slots=True)
class Notification:
    """A message that must never be answered."""

    method: str
    params: dict[str, Any]


@dataclass(slots=True)
class Response:
    """An answer to a request from this server. Exactly one of ``result`` and ``error`` is not None."""

    id: Id
    result: dict[str, Any] | None
    error: dict[str, Any] | None


@dataclass(slots=True)
class Invalid:
    """An invalid member of a batch. ``id`` is None if the member has no readable id."""

    error: PeerError
    id: Id | None


Message = Request | Notification | Response

DEFAULT_LIMITS: Final = Limits()
_ABSENT: Final = object()
_OUTCOMES: Final = ("result", "error")
_WRONG_ID: Final = "The member 'id' must be a string or an integer below 2^53."
_INT64_MIN: Final = -(2**63)
_UINT64_MAX: Final = 2**64 - 1
# A float of this value or more may be an integer that the decoder has rounded.
_HUGE: Final = 2.0**63
_SOME: Final = 5e-324
# The longest number and the deepest nesting that the encoder can write.
_ENCODED_DIGITS: Final = len("-1.7976931348623157e+308")
_ENCODED_DEPTH: Final = 200
_LARGE: Final = 4096
_NO_OPENERS: Final = bytes(byte for byte in range(256) if byte not in b"{[")


def parse(body: bytes, limits: Limits = DEFAULT_LIMITS) -> Message | list[Message | Invalid]:
    """Parse a request body into a message, or a batch into a list of messages.

    The caller must decide whether batches are allowed. If params are absent, they are ``{}``. Raise
    ParseError, InvalidRequest, InvalidParams (for positional params, RPC-10) or PayloadTooLarge. The
    error's ``request_id`` is the id of the message, if it is readable.
    """
    if len(body) > limits.body_bytes:
        raise PayloadTooLarge(f"The body is larger than {limits.body_bytes} bytes.")
    try:
        root = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ParseError(f"The body is not valid JSON: {error.msg} at character {error.pos}.") from None
    if not _is_plain(root, body, limits):
        _check(root, body, limits)
    if type(root) is list:
        return _batch(root, limits)
    return _message(root)


def _is_plain(root: Any, body: bytes, limits: Limits) -> bool:
    """Return True if a body is too short to exceed a limit and is equal to its re-encoding.

    If it had a duplicate key or a rounded number, the re-encoding would differ.
    """
    return (
        # Each value takes up at least one byte.
        len(body) <= limits.members
        and len(body) <= limits.string_bytes
        and limits.number_digits >= _ENCODED_DIGITS
        and len(body.translate(None, _NO_OPENERS)) <= min(limits.depth, _ENCODED_DEPTH)
        and orjson.dumps(root) == body
    )


def _check(root: Any, body: bytes, limits: Limits) -> None:
    """Refuse what the decoder accepts: great depth, too many values, duplicate keys, rounded integers."""
    keys, number = _walk(root, limits)
    # A colon follows each key. If there are as many colons as distinct keys, there is no duplicate.
    repeated = body.count(b":") != keys and _separators(body) != keys
    if repeated or (number and (number >= _HUGE or _long_number(limits.number_digits).search(body))):
        _check_exactly(body, limits)
    # A string is never longer than the text from which it was decoded.
    if len(body) > limits.string_bytes:
        _check_strings(root, limits)


def _walk(root: Any, limits: Limits) -> tuple[int, float]:
    """Return the number of keys and the greatest float (0 if there is none).

    The walk proceeds level by level. It does not use recursion, so no input can overflow the stack.
    """
    keys = members = depth = 0
    greatest = 0.0
    level: list[Any] = [root]
    while level:
        deeper: list[Any] = []
        nested = False
        for node in level:
            kind = type(node)
            if kind is dict:
                keys += len(node)
                deeper += node.values()
                nested = True
            elif kind is list:
                deeper += node
                nested = True
            elif kind is float:
                greatest = max(greatest, abs(node), _SOME)
        members += len(deeper)
        depth += nested
        if depth > limits.depth:
            raise ParseError(f"The body is nested deeper than {limits.depth} levels.")
        if members > limits.members:
            raise ParseError(f"The body holds more than {limits.members} values.")
        level = deeper
    return keys, greatest


def _separators(body: bytes) -> int:
    """Return an upper bound for the number of keys.

    Most colons inside strings, as in URLs, are not counted.
    """
    after_blank = body.count(b" :") + body.count(b"\t:") + body.count(b"\n:") + body.count(b"\r:")
    return body.count(b'":') + after_blank


@lru_cache(maxsize=8)
def _long_number(digits: int) -> re.Pattern[bytes]:
    return re.compile(rb"[0-9.eE+-]{%d}" % (digits + 1))


def _check_exactly(body: bytes, limits: Limits) -> None:
    """Decode again with a slower decoder. Refuse duplicate keys, and numbers that lose precision."""

    def members(pairs: list[tuple[str, Any]]) -> None:
        if len(dict(pairs)) != len(pairs):
            raise ParseError("An object in the body holds the same key twice.")

    def number(text: str) -> None:
        if len(text) > limits.number_digits:
            raise ParseError(f"A number in the body is longer than {limits.number_digits} characters.")

    def integer(text: str) -> None:
        number(text)
        if not _INT64_MIN <= int(text) <= _UINT64_MAX:
            raise ParseError("An integer in the body does not fit into 64 bits. Send it as a string.")

    json.loads(body.decode(), object_pairs_hook=members, parse_int=integer, parse_float=number)


def _check_strings(root: Any, limits: Limits) -> None:
    pending: list[Any] = [root]
    while pending:
        node = pending.pop()
        if type(node) is dict:
            pending += node
            pending += node.values()
        elif type(node) is list:
            pending += node
        elif type(node) is str and len(node.encode()) > limits.string_bytes:
            raise ParseError(f"A string in the body is longer than {limits.string_bytes} bytes.")


def _batch(nodes: list[Any], limits: Limits) -> list[Message | Invalid]:
    if not nodes:
        raise InvalidRequest("The batch is empty.")
    if len(nodes) > limits.batch:
        raise InvalidRequest(f"The batch holds more than {limits.batch} messages.")
    return [_member(node) for node in nodes]


def _member(node: Any) -> Message | Invalid:
    try:
        return _message(node)
    except PeerError as error:
        return Invalid(error, error.request_id)


def _message(node: Any) -> Message:
    if type(node) is not dict:
        raise InvalidRequest("A message must be a JSON object.")
    method = node.get("method", _ABSENT)
    if type(method) is str and node.get("jsonrpc") == "2.0" and "result" not in node and "error" not in node:
        params = node.get("params")
        if params is None:
            params = {}
        elif type(params) is not dict:
            raise _wrong_params(params, _id(node))
        elif None in params.values() or "_meta" in params:
            params = _without_nulls(params)
        if "id" in node:
            request_id = node["id"]
            # A shortcut, because most ids are small numbers.
            if type(request_id) is not int or not 0 <= request_id <= MAX_SAFE_INTEGER:
                request_id = _id(node)
            if request_id is None:
                raise InvalidRequest(_WRONG_ID)
            return Request(request_id, method, params)
        return Notification(method, params)
    return _other(node, method)


def _without_nulls(params: dict[str, Any]) -> dict[str, Any]:
    """Return params without members that are null, because senders use null for absent members (RPC-10).

    In tool arguments and in ``_meta`` nulls are kept, except for the progress token.
    """
    meta = params.get("_meta")
    if type(meta) is dict and meta.get("progressToken", _ABSENT) is None:
        params = {**params, "_meta": {name: value for name, value in meta.items() if name != "progressToken"}}
    if None in params.values():
        return {name: value for name, value in params.items() if value is not None}
    return params


def _other(node: dict[str, Any], method: Any) -> Response:
    """Return a response. Raise InvalidRequest if the object is not a message."""
    request_id = _id(node)
    # Responses of JSON-RPC 1.0 have both members, one of which is null.
    node = {name: value for name, value in node.items() if value is not None or name not in _OUTCOMES}
    if node.get("jsonrpc") != "2.0":
        raise InvalidRequest("The member 'jsonrpc' must be \"2.0\".", request_id=request_id)
    if method is not _ABSENT:
        problem = "must be a string" if type(method) is not str else "cannot stand beside 'result' or 'error'"
        raise InvalidRequest(f"The member 'method' {problem}.", request_id=request_id)
    if ("result" in node) == ("error" in node):
        problem = "A message needs a 'method', or exactly one of 'result' and 'error'."
        raise InvalidRequest(problem, request_id=request_id)
    if request_id is None:
        raise InvalidRequest(_WRONG_ID)
    return Response(request_id, _result(node, request_id), _error(node, request_id))


def _result(node: dict[str, Any], request_id: Id | None) -> dict[str, Any] | None:
    if "result" not in node:
        return None
    result = node["result"]
    if type(result) is not dict:
        raise InvalidRequest("The member 'result' must be an object.", request_id=request_id)
    return result


def _error(node: dict[str, Any], request_id: Id | None) -> dict[str, Any] | None:
    if "error" not in node:
        return None
    error = node["error"]
    if type(error) is dict and type(error.get("code")) is int and type(error.get("message")) is str:
        return error
    problem = "The member 'error' must be an object with an integer 'code' and a string 'message'."
    raise InvalidRequest(problem, request_id=request_id)


def _wrong_params(params: Any, request_id: Id | None) -> PeerError:
    # Positional params are valid in JSON-RPC but invalid for every method of this server (RPC-10).
    if type(params) is list:
        return InvalidParams("The params must be an object.", http_status=400, request_id=request_id)
    return InvalidRequest("The member 'params' must be an object.", request_id=request_id)


def _id(node: dict[str, Any]) -> Id | None:
    """Return the id of the message, or None if it is missing or invalid."""
    value = node.get("id")
    if type(value) is str or (type(value) is int and -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER):
        return value
    return None


def encode(value: Any) -> bytes:
    """Return a JSON value as UTF-8 without line breaks. Raise InternalError if JSON cannot represent it."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return _encode_slowly(value)


def _encode_slowly(value: Any) -> bytes:
    """Encode integers beyond 64 bits, which JSON allows but the fast encoder does not."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InternalError("The answer cannot be written as JSON.") from error


def encode_id(request_id: Id) -> bytes:
    """Encode the id of a request as JSON."""
    return b"%d" % request_id if type(request_id) is int else orjson.dumps(request_id)


def answered_id(encoded: bytes) -> Id | None:
    """Return the id of a response that this module encoded, or None. The rest is not parsed."""
    found = _OPENING.match(encoded)
    return None if found is None else json.loads(found[1])


def encode_result(
    id: Id,  # noqa: A002
    result: dict[str, Any] | list[Any] | bytes,
    opening: bytes = b"",
) -> bytes:
    """Return a successful response. ``result`` may be a result that is already encoded, as ``bytes``.

    ``opening`` contains the first members of ``result``, with the opening brace and a trailing comma. In
    that case ``result`` must have at least one more member.
    """
    body = result if type(result) is bytes else encode(result)
    if not opening:
        return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (encode_id(id), body)
    if len(body) <= _LARGE:
        return b'{"jsonrpc":"2.0","id":%b,"result":%b%b}' % (encode_id(id), opening, body[1:])
    rest = memoryview(body)[1:]  # Copy a large result only once.
    return b"".join((b'{"jsonrpc":"2.0","id":%b,"result":' % encode_id(id), opening, rest, b"}"))


def encode_error(error: McpError, id: Id | None = NO_ID) -> bytes:  # noqa: A002
    """Return an error response. Omit the id if neither ``id`` nor the error has one (RPC-07)."""
    request_id = error.request_id if id is None else id
    body = encode(error.to_wire())
    if request_id is None:
        return b'{"jsonrpc":"2.0","error":%b}' % body
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (encode_id(request_id), body)


def encode_request(id: Id, method: str, params: dict[str, Any]) -> bytes:  # noqa: A002
    """Return a request from this server to the client."""
    parts = (encode_id(id), orjson.dumps(method), encode(params))
    return b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":%b}' % parts


def encode_notification(method: str, params: dict[str, Any] | None = None) -> bytes:
    """Return a notification. The member ``params`` is omitted if it is None."""
    if params is None:
        return b'{"jsonrpc":"2.0","method":%b}' % orjson.dumps(method)
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (orjson.dumps(method), encode(params))


def encode_member(member: Message | Invalid) -> bytes:
    """Return a member of a batch in the form in which it is logged. An invalid member becomes its error."""
    if isinstance(member, Request):
        return encode_request(member.id, member.method, member.params)
    if isinstance(member, Notification):
        return encode_notification(member.method, member.params)
    if isinstance(member, Invalid):
        return encode_error(member.error, member.id)
    if member.error is not None:
        return encode({"jsonrpc": "2.0", "id": member.id, "error": member.error})
    return encode_result(member.id, member.result or {})
