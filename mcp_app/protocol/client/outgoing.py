"""Requests and notifications to another server, with their HTTP headers, for both eras."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from mcp_app.protocol.features.subscriptions import LISTS, METHOD, RESOURCES
from mcp_app.protocol.http import header_values
from mcp_app.protocol.http.routing_headers import NAMED_BY
from mcp_app.protocol.messages import envelope, jsonrpc
from mcp_app.protocol.versions import V2025_06_18, V2026_07_28, is_modern

Headers = tuple[tuple[str, str], ...]
VERSION_HEADER: Final = "MCP-Protocol-Version"
SESSION_HEADER: Final = "Mcp-Session-Id"
_COMMON: Final[Headers] = (
    ("Content-Type", "application/json"),
    ("Accept", "application/json, text/event-stream"),
)


@dataclass(frozen=True, slots=True)
class Identity:
    """The client that other servers see: its name and version, and the capabilities it declares."""

    info: Mapping[str, Any]
    capabilities: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Peer:
    """A server after the handshake. ``session`` is empty without one, as in the modern era."""

    version: str
    session: str = ""
    info: Mapping[str, Any] = field(default_factory=dict)
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    instructions: str = ""
    # True if requests belong to no session and carry the members of the handshake themselves.
    is_modern: bool = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_modern", is_modern(self.version))


@dataclass(frozen=True, slots=True)
class Outgoing:
    """The body and headers of one request. ``id`` is None if the message gets no answer."""

    body: bytes | None
    headers: Headers
    id: jsonrpc.Id | None = None
    # True for a request that opens a session: its failure must not be read as an expired session.
    opens: bool = False
    method: str = "POST"


def discover(identity: Identity, number: jsonrpc.Id) -> Outgoing:
    """Return the request that shows whether a server speaks the modern era (DISC-01)."""
    return request(Peer(V2026_07_28), identity, number, "server/discover", {})


def initialize(identity: Identity, number: jsonrpc.Id, version: str) -> Outgoing:
    """Return the request that opens a session (LIFE-01)."""
    params = {
        "protocolVersion": version,
        "capabilities": dict(identity.capabilities),
        "clientInfo": dict(identity.info),
    }
    return Outgoing(jsonrpc.encode_request(number, "initialize", params), _COMMON, number, opens=True)


def request(
    peer: Peer,
    identity: Identity,
    number: jsonrpc.Id,
    method: str,
    params: Mapping[str, Any],
    *,
    progress: bool = False,
    log_level: str = "",
    meta: Mapping[str, Any] | None = None,
    headers: Headers = (),
) -> Outgoing:
    """Return a request. With ``progress``, the id is the progress token as well.

    ``log_level`` asks a modern server for log messages. ``meta`` are further members of ``_meta``, and
    ``headers`` the arguments that are repeated as headers (XMH-07).
    """
    told = {**meta} if meta else {}
    if progress:
        told["progressToken"] = number
    if peer.is_modern:
        told[envelope.VERSION] = peer.version
        told[envelope.CLIENT_CAPABILITIES] = identity.capabilities
        told[envelope.CLIENT_INFO] = identity.info
        if log_level:
            told[envelope.LOG_LEVEL] = log_level
    sent = {**params, "_meta": told} if told else dict(params)
    named = (*_headers(peer), *(_routing(method, params) if peer.is_modern else ()), *headers)
    return Outgoing(jsonrpc.encode_request(number, method, sent), named, number)


def listening(peer: Peer, identity: Identity, number: jsonrpc.Id, uris: Sequence[str]) -> Outgoing:
    """Return the request whose answer has all notifications that belong to no call.

    A modern server also gets the URIs of resources. A legacy server gets them in other requests.
    """
    if peer.is_modern:
        wanted: dict[str, Any] = dict.fromkeys(LISTS, True)
        if uris:
            wanted[RESOURCES] = [*uris]
        return request(peer, identity, number, METHOD, {"notifications": wanted})
    headers = (("Accept", "text/event-stream"), *_headers(peer)[len(_COMMON) :])
    return Outgoing(None, headers, number, method="GET")


def notification(peer: Peer, method: str, params: Mapping[str, Any] | None = None) -> Outgoing:
    """Return a notification of a legacy session."""
    body = jsonrpc.encode_notification(method, None if params is None else dict(params))
    return Outgoing(body, _headers(peer))


def initialized(peer: Peer) -> Outgoing:
    """Return the notification that completes the handshake."""
    return notification(peer, "notifications/initialized")


def cancelled(peer: Peer, number: jsonrpc.Id) -> Outgoing:
    """Return the notification that cancels a request of a legacy session."""
    params = {"requestId": number, "reason": "The caller cancelled."}
    return notification(peer, "notifications/cancelled", params)


def answered(peer: Peer, number: jsonrpc.Id, result: Mapping[str, Any]) -> Outgoing:
    """Return the answer to a request of a legacy server."""
    return Outgoing(jsonrpc.encode_result(number, dict(result)), _headers(peer))


def answer(peer: Peer, number: jsonrpc.Id, answer: Mapping[str, Any]) -> Outgoing:
    """Return the answer to a request of a legacy server. It has a ``result`` or an ``error``."""
    return Outgoing(jsonrpc.encode({"jsonrpc": "2.0", "id": number, **answer}), _headers(peer))


def declined(peer: Peer, number: jsonrpc.Id, method: str) -> Outgoing:
    """Return the error for a request of a legacy server that this client does not support."""
    error = {"code": -32601, "message": f"This client does not support {method[:128]}."}
    return Outgoing(jsonrpc.encode({"jsonrpc": "2.0", "id": number, "error": error}), _headers(peer))


def ended(peer: Peer) -> Headers:
    """Return the headers of the DELETE that ends a session."""
    return _headers(peer)[len(_COMMON) :]


def _headers(peer: Peer) -> Headers:
    told: Headers = ((VERSION_HEADER, peer.version),) if peer.version >= V2025_06_18 else ()
    session: Headers = ((SESSION_HEADER, peer.session),) if peer.session else ()
    return (*_COMMON, *told, *session)


def _routing(method: str, params: Mapping[str, Any]) -> Headers:
    member = NAMED_BY.get(method)
    if member is None:
        return (("Mcp-Method", method),)
    return (("Mcp-Method", method), ("Mcp-Name", _named(str(params.get(member, "")))))


@lru_cache(maxsize=1024)
def _named(name: str) -> str:
    return header_values.encode(name).decode("ascii")
