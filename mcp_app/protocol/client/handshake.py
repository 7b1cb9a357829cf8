"""The era and the session of a server: answers to ``server/discover`` and ``initialize``, HTTP statuses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import orjson

from mcp_app.protocol.client.answers import error_of
from mcp_app.protocol.client.challenges import missing_scope
from mcp_app.protocol.client.faults import Kind, UpstreamFault
from mcp_app.protocol.client.outgoing import Peer
from mcp_app.protocol.errors import HeaderMismatch, MissingCapability, UnsupportedVersion
from mcp_app.protocol.messages import envelope
from mcp_app.protocol.versions import LEGACY, LEGACY_NAMES, MODERN

MAX_INSTRUCTIONS: Final = 20_000
# Enough of an error's body for a JSON-RPC error.
MAX_ERROR_BYTES: Final = 64 * 1024
_SESSION: Final = re.compile(r"[\x21-\x7e]{1,1024}")
# HTTP statuses with which servers of the legacy era refuse a request of the modern era (ERA-08).
_OLDER: Final = frozenset((400, 404, 405, 406, 415, 422, 500, 501))
_BUSY: Final = frozenset((408, 425, 429, 502, 503, 504))
_MODERN_CODES: Final = frozenset((HeaderMismatch.code, MissingCapability.code))
_TEXTS: Final = {
    401: "refused the credential (401).",
    403: "does not allow this credential (403).",
    404: "has no MCP endpoint at this address (404).",
    405: "has no MCP endpoint at this address (405).",
}


def discovered(result: Mapping[str, Any]) -> Peer | None:
    """Return the server, or None if it offers revisions of the legacy era only.

    Raise UpstreamFault if no revision is known here.
    """
    offered = result.get("supportedVersions")
    names = [name for name in offered if isinstance(name, str)] if isinstance(offered, list) else []
    version = next((name for name in MODERN if name in names), "")
    if version:
        meta = _object(result.get("_meta"))
        return _peer(version, "", _object(meta.get(envelope.SERVER_INFO)), result)
    if LEGACY_NAMES.intersection(names):
        return None
    raise _unsupported(names)


def is_legacy(fault: UpstreamFault) -> bool:
    """Return True if the refusal of ``server/discover`` comes from a server of the legacy era.

    Raise UpstreamFault for a modern server without a common revision.
    """
    if fault.code == UnsupportedVersion.code:
        names = _object(fault.data).get("supported")
        found = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
        if LEGACY_NAMES.intersection(found):
            return True
        raise _unsupported(found)
    if fault.code in _MODERN_CODES:
        return False
    return fault.kind == Kind.REFUSED or (fault.kind == Kind.NOT_MCP and fault.status in _OLDER)


def initialized(result: Mapping[str, Any], session: str | None) -> Peer:
    """Return the server after ``initialize``. ``session`` is the header with the session id, if it was sent.

    Raise UpstreamFault if its revision is not known here, or if the id cannot be sent.
    """
    version = result.get("protocolVersion")
    if not isinstance(version, str) or version not in LEGACY:
        raise _unsupported([version] if isinstance(version, str) else [])
    if session and not _SESSION.fullmatch(session):
        raise UpstreamFault(Kind.INVALID, "sent a session id that is not valid.")
    return _peer(version, session or "", _object(result.get("serverInfo")), result)


def fault_of(status: int, body: bytes, *, in_session: bool, challenge: str = "") -> UpstreamFault:
    """Return the fault for an HTTP answer without a result. ``challenge`` is its ``WWW-Authenticate``."""
    error = _error(body)
    if status == 403 and (missing := missing_scope(challenge)) is not None:
        return missing
    if status in (401, 403):
        return UpstreamFault(Kind.LOGIN, _TEXTS[status], status=status)
    if in_session and (status == 404 or (status == 400 and error and _names_session(error))):
        return UpstreamFault(Kind.EXPIRED, "ended the session.", status=status, sent=False)
    if status in _BUSY:
        return UpstreamFault(Kind.BUSY, f"is not available now ({status}).", status=status)
    if error is not None:
        return error_of(error, status)
    if 300 <= status < 400:
        return UpstreamFault(Kind.NOT_MCP, "redirects, which is not followed.", status=status)
    text = _TEXTS.get(status, f"answered with status {status} and no message.")
    return UpstreamFault(Kind.NOT_MCP, text, status=status)


def _error(body: bytes) -> dict[str, Any] | None:
    """Return the JSON-RPC error in the body of a refusal, which may have no id."""
    try:
        found = _object(orjson.loads(body)).get("error")
    except orjson.JSONDecodeError:
        return None
    if isinstance(found, dict) and type(found.get("code")) is int and isinstance(found.get("message"), str):
        return found
    return None


def _names_session(error: Mapping[str, Any]) -> bool:
    # Several servers refuse an unknown session with 400 and an own code.
    return error["code"] in (-32000, -32600) and "session" in error["message"].lower()


def _peer(version: str, session: str, info: Mapping[str, Any], result: Mapping[str, Any]) -> Peer:
    told = result.get("instructions")
    instructions = told[:MAX_INSTRUCTIONS] if isinstance(told, str) else ""
    return Peer(version, session, info, _object(result.get("capabilities")), instructions)


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _unsupported(names: list[str]) -> UpstreamFault:
    shown = ", ".join(name[:32] for name in names[:8]) or "none"
    return UpstreamFault(Kind.UNSUPPORTED, f"offers no protocol revision that is known here: {shown}.")
