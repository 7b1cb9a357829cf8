"""A single modern request in the role of a session: all its data comes from the request.

Nothing is stored after it (GEN-04), except for a background call, which stores its fields.
"""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache
from typing import Any

import orjson

from mcp_app import servers
from mcp_app.database import clock
from mcp_app.protocol import downlevel
from mcp_app.protocol.capabilities import MEMO_BYTES, ClientCapabilities, known
from mcp_app.protocol.messages import envelope, jsonrpc
from mcp_app.protocol.messages.envelope import Envelope
from mcp_app.protocol.messages.server import ENDPOINT, Server
from mcp_app.protocol.versions import V2025_11_25
from mcp_app.sessions.negotiated import Negotiated
from mcp_app.sessions.session import bounded

MODERN = "modern"
CLIENT_RECORD = "client-"
# Members that a result may get besides its own.
_COMMON = frozenset(("_meta", "resultType", *downlevel.CACHE_HINTS))


class Exchange(Negotiated):
    """A single modern request.

    Its ``id`` is random, because request ids are unique per client only (T-MOD-13). ``log_level`` is "" if
    the request asked for no log messages (LOG-03). ``server`` is named in its results.
    """

    __slots__ = ("_id", "server")

    def __init__(self, said: Envelope, principal_key: str, server: Server, exchange_id: str = "") -> None:
        # Not through stored fields: an exchange is created for every request, and rarely stored.
        self._id = exchange_id
        self.principal_key, self.server, self.path = principal_key, server, server.path
        self.created_at = clock.timestamp()
        self.transport = MODERN
        self.version = said.version
        read = _read if len(said.said) <= MEMO_BYTES else _read.__wrapped__
        self.capabilities, self.raw_capabilities, self.client_info, client = read(said)
        self.log_level = said.log_level
        # Without the path of the installation's own server, records keep the ids of earlier versions.
        self.record_id = _record_id(principal_key, client if self.path == ENDPOINT else (*client, self.path))
        self.initialized = True
        self.in_flight = {}

    @property
    def id(self) -> str:  # type: ignore[override]
        """The random id, created on first use because most requests do not need it."""
        self._id = self._id or "x-" + os.urandom(15).hex()
        return self._id

    def stored(self) -> dict[str, str]:
        # A request has no such state. Both kinds share one stored form.
        return {**super().stored(), "initialized": "0", "announced": "0"}

    def fit(self, method: str, result: dict[str, Any]) -> dict[str, Any]:
        return downlevel.complete(method, downlevel.result(method, result, self.version), self.server.meta)

    def complete(self, method: str, result: dict[str, Any]) -> dict[str, Any]:
        return downlevel.complete(method, result, self.server.meta)

    def answer(self, request: jsonrpc.Request, result: dict[str, Any] | bytes) -> bytes:
        if type(result) is dict and not (result and _COMMON.isdisjoint(result)):
            return jsonrpc.encode_result(request.id, self.complete(request.method, result))
        return jsonrpc.encode_result(request.id, result, self.server.opening(request.method))


def restored(exchange_id: str, fields: dict[str, str]) -> Exchange:
    """Return the modern request described by stored fields, which name its server by the path."""
    meta = {
        envelope.VERSION: fields["version"],
        envelope.CLIENT_CAPABILITIES: orjson.loads(fields["capabilities"]),
        envelope.CLIENT_INFO: orjson.loads(fields["client"]),
    }
    if fields.get("log_level"):
        meta[envelope.LOG_LEVEL] = fields["log_level"]
    server = servers.at(fields.get("path", ENDPOINT))
    return Exchange(envelope.read({"_meta": meta}), fields["principal"], server, exchange_id)


@lru_cache(maxsize=256)
def _read(said: Envelope) -> tuple[ClientCapabilities, dict[str, Any], dict[str, Any], tuple[str, ...]]:
    """Return the capabilities, client info and record key of a request.

    Callers must not change the returned value.
    """
    info = bounded(said.client_info)
    # Elicitation and sampling have the same forms as in 2025-11-25.
    capabilities = ClientCapabilities.parse(said.capabilities, V2025_11_25)
    client = (said.version, info.get("name", ""), info.get("version", ""))
    return capabilities, known(said.capabilities), info, client


@lru_cache(maxsize=1_000)
def _record_id(principal_key: str, client: tuple[str, ...]) -> str:
    """Return the record id of a principal's client, the same for all of its requests to a server."""
    parts = "\0".join((principal_key, *client))
    return CLIENT_RECORD + hashlib.sha256(parts.encode()).hexdigest()[:40]
