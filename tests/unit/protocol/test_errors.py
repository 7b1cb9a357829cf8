from __future__ import annotations

import inspect

import pytest

from mcp_app.protocol import errors
from mcp_app.protocol.errors import (
    Forbidden,
    InternalError,
    InvalidParams,
    InvalidRequest,
    McpError,
    MethodNotAllowed,
    MethodNotFound,
    ParseError,
    PeerError,
    Refused,
    RequestCancelled,
    ResourceNotFound,
    ServerFault,
    SessionNotFound,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    http_status_for,
)

WITH_DATA = (errors.MissingCapability, errors.UnsupportedVersion)
EVERY_ERROR = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, McpError)]


@pytest.mark.parametrize("kind", EVERY_ERROR)
def test_error_has_default_one_line_message(kind: type[McpError]) -> None:
    wire = kind().to_wire()
    assert wire["message"].endswith(".")
    assert "\n" not in wire["message"]
    assert set(wire) == {"code", "message"} | ({"data"} if kind in WITH_DATA else set())


@pytest.mark.parametrize("kind", EVERY_ERROR)
def test_error_is_listed_in_module_docstring(kind: type[McpError]) -> None:
    assert kind.__name__ in (errors.__doc__ or "")


@pytest.mark.parametrize("kind", [kind for kind in EVERY_ERROR if kind is not McpError])
def test_error_is_either_peer_error_or_server_fault(kind: type[McpError]) -> None:
    assert issubclass(kind, PeerError) != issubclass(kind, ServerFault)


@pytest.mark.requirement("RPC-09")
@pytest.mark.parametrize("kind", EVERY_ERROR)
def test_error_code_is_known_to_2026_07_28(kind: type[McpError]) -> None:
    wire = errors.fitted(kind(), "2026-07-28").to_wire()
    known = {-32700, -32600, -32601, -32602, -32603, -32020, -32021, -32022}
    assert wire["code"] in known
    assert errors.fitted(kind(), "2025-11-25").code == kind.code


@pytest.mark.parametrize("kind", EVERY_ERROR)
def test_error_code_is_not_reserved_for_others(kind: type[McpError]) -> None:
    assert kind.code in {-32700, -32600, -32601, -32602, -32603, -32002, -32800, -32042} | {
        -32020,
        -32021,
        -32022,
    }


def test_message_data_and_code_can_be_overridden() -> None:
    error = InvalidParams("No.", data={"uri": "a:b"}, code=-32001, http_status=400, request_id=7)
    assert error.to_wire() == {"code": -32001, "message": "No.", "data": {"uri": "a:b"}}
    assert (error.http_status, error.request_id, str(error)) == (400, 7, "No.")
    assert InvalidParams.code == -32602


@pytest.mark.parametrize(
    ("error", "headers"),
    [
        (Unauthorized(), ((b"www-authenticate", b"Bearer"),)),
        (Unauthorized(challenge='Bearer error="x"'), ((b"www-authenticate", b'Bearer error="x"'),)),
        (Forbidden(), ()),
        (Forbidden(challenge="Bearer"), ((b"www-authenticate", b"Bearer"),)),
        (MethodNotAllowed(), ((b"allow", b"GET, POST, DELETE"),)),
        (MethodNotAllowed(allow="POST"), ((b"allow", b"POST"),)),
        (TooManyRequests(retry_after=0.2), ((b"retry-after", b"1"),)),
        (TooManyRequests(retry_after=4.1), ((b"retry-after", b"5"),)),
        (Unavailable(retry_after=3), ((b"retry-after", b"3"),)),
        (SessionNotFound(), ()),
        (InternalError(), ()),
    ],
)
def test_error_has_headers_required_by_status(
    error: McpError, headers: tuple[tuple[bytes, bytes], ...]
) -> None:
    assert error.headers == headers


@pytest.mark.parametrize(
    ("error", "legacy", "modern"),
    [
        (ParseError(), 400, 400),
        (InvalidRequest(), 400, 400),
        (MethodNotFound(), 200, 404),
        (InvalidParams(), 200, 400),
        (McpError(code=-32020), 200, 400),
        (McpError(code=-32021), 200, 400),
        (McpError(code=-32022), 200, 400),
        (InternalError(), 200, 200),
        (McpError(code=1234), 200, 200),
        (ResourceNotFound(), 200, 200),
        (RequestCancelled(), 200, 200),
        (SessionNotFound(), 404, 404),
        (Refused(http_status=431), 431, 431),
        (Unavailable(), 503, 503),
    ],
)
def test_http_status_depends_on_era(error: McpError, legacy: int, modern: int) -> None:
    assert http_status_for(error, "2025-11-25") == legacy
    assert http_status_for(error, "2026-07-28") == modern
