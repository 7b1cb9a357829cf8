"""One modern request, where handlers and calls expect a session: all it knows came with the request.

Nothing is kept after it (GEN-04). Only what outlives the request, a background call, stores its fields.
"""

from __future__ import annotations

import secrets
import time
from functools import lru_cache
from typing import Any

import orjson

from mcp_app import conf
from mcp_app.protocol import downlevel
from mcp_app.protocol.capabilities import ClientCapabilities, known
from mcp_app.protocol.envelope import SERVER_INFO, Envelope
from mcp_app.protocol.versions import V2025_11_25, is_modern
from mcp_app.sessions.session import Session, bounded, stored_fields

MODERN = "modern"


class Exchange(Session):
    """One request. Its ``id`` is random: a client's own request ids say nothing beyond the client (T-MOD-13).

    ``log_level`` is empty when the request asked for no log messages (LOG-03).
    """

    __slots__ = ()

    def __init__(self, envelope: Envelope, principal_key: str, exchange_id: str = "") -> None:
        # Not by way of stored fields: this is made for every request, and mostly nothing of it is stored.
        self.id = exchange_id or "x-" + secrets.token_urlsafe(15)
        self.principal_key = principal_key
        self.created_at = time.time()
        self.transport = MODERN
        self.version = envelope.version
        self.client_info = bounded(envelope.client_info)
        self.raw_capabilities = envelope.capabilities
        self.capabilities = _parsed(orjson.dumps(envelope.capabilities))
        self.log_level = envelope.log_level
        self.initialized = True
        self.announced = 0
        self.in_flight = {}
        self.warned_version = False
        self.checked_at = 0.0

    def stored(self) -> dict[str, str]:
        """The form in which a background call keeps it."""
        fields = stored_fields(
            version=self.version,
            principal=self.principal_key,
            client_info=self.client_info,
            capabilities=known(self.raw_capabilities),
            announced=0,
            transport=MODERN,
        )
        return {**fields, "log_level": self.log_level}

    def fit(self, method: str, result: dict[str, Any]) -> dict[str, Any]:
        """See ``Session.fit``."""
        return downlevel.complete(method, downlevel.result(method, result, self.version), server_meta())

    def complete(self, method: str, result: dict[str, Any] | bytes) -> dict[str, Any] | bytes:
        """See ``Session.complete``; of a prepared page only the beginning is made anew."""
        if type(result) is bytes:
            return _opening(conf.get(), method) + result[1:]
        return downlevel.complete(method, result, server_meta())  # type: ignore[arg-type]


def restored(session_id: str, fields: dict[str, str]) -> Session:
    """What stored fields describe: a legacy session, or the request that a background call came by."""
    if not is_modern(fields["version"]):
        return Session(session_id, fields)
    envelope = Envelope(
        fields["version"],
        orjson.loads(fields["capabilities"]),
        orjson.loads(fields["client"]),
        fields.get("log_level", ""),
    )
    return Exchange(envelope, fields["principal"], session_id)


def server_meta() -> dict[str, Any]:
    """The ``_meta`` of every result: who answered (DISC-03)."""
    return _server_meta(conf.get())


@lru_cache(maxsize=4)
def _server_meta(settings: conf.Settings) -> dict[str, Any]:
    return {SERVER_INFO: server_info(settings)}


@lru_cache(maxsize=64)
def _opening(settings: conf.Settings, method: str) -> bytes:
    """The beginning of a result with at least one member more."""
    return orjson.dumps(downlevel.complete(method, {}, _server_meta(settings)))[:-1] + b","


def server_info(settings: conf.Settings) -> dict[str, Any]:
    """What the server calls itself, with the members of the newest revisions."""
    info: dict[str, Any] = {"name": settings.server_name, "version": settings.server_version}
    if settings.server_title:
        info["title"] = settings.server_title
    if settings.public_url:
        info["websiteUrl"] = settings.public_url
    return info


@lru_cache(maxsize=256)
def _parsed(capabilities: bytes) -> ClientCapabilities:
    # Its forms of elicitation and sampling are those of 2025-11-25.
    return ClientCapabilities.parse(orjson.loads(capabilities), V2025_11_25)
