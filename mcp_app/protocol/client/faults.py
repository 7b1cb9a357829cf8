"""Failures of another server, each with a kind and a text for the caller of a tool."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final


class Kind(StrEnum):
    """The kinds of failures. An operator finds them in the log and on the server's page."""

    BLOCKED = "blocked"
    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    BROKEN_OFF = "broken_off"
    BUSY = "busy"
    INVALID = "invalid"
    TOO_LARGE = "too_large"
    LOGIN = "login"
    EXPIRED = "expired"
    NOT_MCP = "not_mcp"
    UNSUPPORTED = "unsupported"
    QUESTION = "question"
    REFUSED = "refused"


# Kinds after which a server counts as unavailable. A refused credential or request is not an outage.
OUTAGES: Final = frozenset((Kind.UNREACHABLE, Kind.TIMEOUT, Kind.BROKEN_OFF, Kind.BUSY))


class UpstreamFault(Exception):
    """A request to another server that has no result.

    ``code`` and ``data`` belong to a JSON-RPC error, and ``status`` to an HTTP answer. ``sent`` is False if
    the other server has certainly not processed the request.
    """

    def __init__(
        self, kind: Kind, text: str, *, code: int = 0, data: Any = None, status: int = 0, sent: bool = True
    ) -> None:
        super().__init__(text)
        self.kind, self.code, self.data, self.status, self.sent = kind, code, data, status, sent


class InsufficientScope(UpstreamFault):
    """A request that needs ``scopes`` which its credential does not have. The server has not processed it.

    ``can_be_asked_for`` is True if another login of the user can get them.
    """

    def __init__(self, scopes: tuple[str, ...]) -> None:
        shown = f"the permissions {', '.join(scopes)}" if scopes else "further permissions"
        text = f"refused the request: it needs {shown}, which the credential does not have (403)."
        super().__init__(Kind.LOGIN, text, status=403)
        self.scopes, self.can_be_asked_for = scopes, False
