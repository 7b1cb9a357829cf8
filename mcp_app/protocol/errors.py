"""The errors that the server answers with, their codes and HTTP statuses, and the side at fault.

::

    McpError
    ├── PeerError                        the other side did something wrong
    │   ├── ParseError                   -32700  400
    │   ├── InvalidRequest               -32600  400
    │   ├── MethodNotFound               -32601  200
    │   ├── InvalidParams                -32602  200
    │   ├── ResourceNotFound             -32002  200
    │   ├── RequestCancelled             -32800  200
    │   ├── UrlElicitationRequired       -32042  200
    │   ├── InvalidAnswer                -32600  200   the client's answer to a request of the server
    │   ├── HeaderMismatch               -32020  400   2026-07-28 only, like the next two
    │   ├── MissingCapability            -32021  400   data: requiredCapabilities
    │   ├── UnsupportedVersion           -32022  400   data: supported, requested
    │   └── Refused                      -32600  400   refused at the HTTP layer
    │       ├── Unauthorized                     401   WWW-Authenticate
    │       ├── Forbidden                        403   WWW-Authenticate when a scope is missing
    │       ├── SessionNotFound                  404
    │       ├── ServerNotFound                   404
    │       ├── MethodNotAllowed                 405   Allow
    │       ├── NotAcceptable                    406
    │       ├── Conflict                         409
    │       ├── PayloadTooLarge                  413
    │       ├── UnsupportedMediaType             415
    │       ├── MisdirectedRequest               421
    │       ├── TooManyRequests                  429   Retry-After
    │       └── HeadersTooLarge                  431
    └── ServerFault                      this server did something wrong
        ├── InternalError                -32603  200
        └── Unavailable                  -32603  503   Retry-After

These statuses apply in the legacy era. ``http_status_for`` knows both eras. The first line of an exception's
docstring is its default message to clients.
"""

from __future__ import annotations

from math import ceil
from typing import Any, Final

from mcp_app.protocol.versions import is_modern

Headers = tuple[tuple[bytes, bytes], ...]


def _default_message(kind: type[McpError]) -> str:
    return (kind.__doc__ or "").strip().partition("\n")[0]


class McpError(Exception):
    """The request failed."""

    code: int = -32603
    http_status: int = 200
    # The value for Retry-After in seconds. 0.0 if it is unknown.
    retry_after: float = 0.0
    # The code for the reason why a call was refused (``refusals.Code``).
    refusal: str = ""

    def __init__(
        self,
        message: str | None = None,
        *,
        data: dict[str, Any] | None = None,
        code: int | None = None,
        http_status: int | None = None,
        request_id: str | int | None = None,
    ) -> None:
        """Set the message and overrides. ``request_id`` is the id of the refused request, for the answer."""
        self.message = message if message is not None else _default_message(type(self))
        super().__init__(self.message)
        self.data = data
        self.request_id = request_id
        if code is not None:
            self.code = code
        if http_status is not None:
            self.http_status = http_status

    @property
    def headers(self) -> Headers:
        """The additional HTTP header fields of the answer, with lower-case names."""
        return ()

    def to_wire(self) -> dict[str, Any]:
        """Return the ``error`` member of a JSON-RPC response."""
        wire: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.data is not None:
            wire["data"] = self.data
        return wire


class PeerError(McpError):
    """The request cannot be served as it was sent."""

    code = -32600
    http_status = 400


class ParseError(PeerError):
    """The body is not valid JSON."""

    code = -32700


class InvalidRequest(PeerError):
    """The body is not a valid JSON-RPC message."""


class MethodNotFound(PeerError):
    """Method not found."""

    code = -32601
    http_status = 200


class InvalidParams(PeerError):
    """The parameters of the request are not valid."""

    code = -32602
    http_status = 200


class ResourceNotFound(PeerError):
    """Resource not found."""

    code = -32002
    http_status = 200


class RequestCancelled(PeerError):
    """Request cancelled."""

    code = -32800
    http_status = 200


class UrlElicitationRequired(PeerError):
    """The request needs a step in the browser first."""

    code = -32042
    http_status = 200


class InvalidAnswer(PeerError):
    """The client's answer is not valid."""

    http_status = 200


class HeaderMismatch(PeerError):
    """A header is missing or differs from the body."""

    code = -32020


class MissingCapability(PeerError):
    """The request needs a capability that the client did not declare."""

    code = -32021

    def __init__(
        self, message: str | None = None, *, required: dict[str, Any] | None = None, **rest: Any
    ) -> None:
        """Put ``required`` into the data, in the form in which clients declare capabilities."""
        super().__init__(message, data={"requiredCapabilities": required or {}}, **rest)


class UnsupportedVersion(PeerError):
    """This protocol version is not supported."""

    code = -32022

    def __init__(
        self, message: str | None = None, *, requested: str = "", supported: tuple[str, ...] = (), **rest: Any
    ) -> None:
        """Put the ``requested`` version, as sent, and all ``supported`` versions into the data (VER-08)."""
        super().__init__(message, data={"supported": list(supported), "requested": requested}, **rest)


class Refused(PeerError):
    """The HTTP request was refused."""

    def __init__(
        self,
        message: str | None = None,
        *,
        headers: Headers = (),
        data: dict[str, Any] | None = None,
        code: int | None = None,
        http_status: int | None = None,
        request_id: str | int | None = None,
    ) -> None:
        super().__init__(message, data=data, code=code, http_status=http_status, request_id=request_id)
        self._headers = headers

    @property
    def headers(self) -> Headers:
        """The additional header fields of the answer."""
        return self._headers


class Unauthorized(Refused):
    """Authentication is required: send a valid credential as 'Authorization: Bearer'."""

    http_status = 401

    def __init__(self, message: str | None = None, *, challenge: str = "Bearer", **rest: Any) -> None:
        """Set the whole WWW-Authenticate value to ``challenge`` (required by RFC 9110 section 11.6.1)."""
        super().__init__(message, headers=((b"www-authenticate", challenge.encode("latin-1")),), **rest)


class Forbidden(Refused):
    """This is not allowed."""

    http_status = 403

    def __init__(self, message: str | None = None, *, challenge: str | None = None, **rest: Any) -> None:
        """Set ``challenge`` if scopes are missing (RFC 6750 section 3.1).

        Other refusals have no challenge.
        """
        self.challenge = challenge
        headers = ((b"www-authenticate", challenge.encode("latin-1")),) if challenge else ()
        super().__init__(message, headers=headers, **rest)


class SessionNotFound(Refused):
    """Session not found: it has ended or never existed. Start a new one with 'initialize'."""

    http_status = 404


class ServerNotFound(Refused):
    """There is no MCP server at this address, or no longer."""

    http_status = 404


class MethodNotAllowed(Refused):
    """This HTTP method is not allowed here."""

    http_status = 405

    def __init__(self, message: str | None = None, *, allow: str = "GET, POST, DELETE", **rest: Any) -> None:
        """Set the list of allowed methods to ``allow`` (required by RFC 9110 section 15.5.6)."""
        super().__init__(message, headers=((b"allow", allow.encode("ascii")),), **rest)


class NotAcceptable(Refused):
    """The Accept header must allow both 'application/json' and 'text/event-stream'."""

    http_status = 406


class Conflict(Refused):
    """The request conflicts with one that is already open."""

    http_status = 409


class PayloadTooLarge(Refused):
    """The body is too large."""

    http_status = 413


class UnsupportedMediaType(Refused):
    """The Content-Type must be 'application/json' and the body must not be compressed."""

    http_status = 415


class MisdirectedRequest(Refused):
    """The Host header names no host of this server. An administrator can add it to ALLOWED_HOSTS."""

    http_status = 421


def _retry_after(seconds: float) -> Headers:
    # Rounded up: if a client waited for a rounded-down time, it would be refused again.
    return ((b"retry-after", b"%d" % max(1, ceil(seconds))),)


class TooManyRequests(Refused):
    """Too many requests: wait before the next one."""

    http_status = 429

    def __init__(
        self, message: str | None = None, *, retry_after: float = 1, headers: Headers = (), **rest: Any
    ) -> None:
        """Set Retry-After to ``retry_after`` seconds, rounded up, in addition to ``headers``."""
        super().__init__(message, headers=(*_retry_after(retry_after), *headers), **rest)
        self.retry_after = retry_after


class HeadersTooLarge(Refused):
    """The header section is too large."""

    http_status = 431


class ServerFault(McpError):
    """The server could not serve the request."""


class InternalError(ServerFault):
    """Internal error."""


class Unavailable(ServerFault):
    """The server cannot take the request now: try again shortly."""

    http_status = 503

    def __init__(self, message: str | None = None, *, retry_after: float = 1, **rest: Any) -> None:
        """Set Retry-After to ``retry_after`` seconds, rounded up."""
        super().__init__(message, **rest)
        self.retry_after = retry_after

    @property
    def headers(self) -> Headers:
        """The Retry-After field."""
        return _retry_after(self.retry_after)


# T-MOD-08: the statuses in the modern era. For other codes, the status of the error itself applies.
MODERN_STATUS: Final = {
    -32700: 400,
    -32600: 400,
    -32601: 404,
    -32602: 400,
    -32020: 400,
    -32021: 400,
    -32022: 400,
}
# RPC-09: of the codes that JSON-RPC reserves, the modern era defines only these. ``_MODERN_CODE`` replaces
# two codes of the legacy era. Any other reserved code becomes an internal error.
_MODERN_CODES: Final = frozenset((*MODERN_STATUS, -32603))
_MODERN_CODE: Final = {-32002: -32602, -32800: -32603}
_RESERVED: Final = range(-32768, -31999)


def http_status_for(error: McpError, version: str) -> int:
    """Return the HTTP status for an answer with only this error, in the era to which ``version`` belongs."""
    if isinstance(error, Refused) or not is_modern(version):
        return error.http_status
    return MODERN_STATUS.get(error.code, error.http_status)


def fitted(error: McpError, version: str) -> McpError:
    """Return the error with a code that ``version`` defines.

    Any other reserved code becomes an internal error.
    """
    code = _MODERN_CODE.get(error.code, -32603 if error.code in _RESERVED else error.code)
    if error.code in _MODERN_CODES or code == error.code or not is_modern(version):
        return error
    data = None if error.code == UrlElicitationRequired.code else error.data
    return McpError(error.message, data=data, code=code, request_id=error.request_id)
