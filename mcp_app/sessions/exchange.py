"""A single modern request, with the interface of a session. All its data comes from the request.

Nothing is stored after the request (GEN-04). Only a background call stores the request's fields.
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
from mcp_app.sessions.session import MADE_IN, bounded

MODERN = "modern"
CLIENT_RECORD = "client-"
# Members that are added to a result, whatever its method.
_COMMON = frozenset(("_meta", "resultType", *downlevel.CACHE_HINTS))


class Exchange(Negotiated):
    """A single modern request.

    ``id`` is random, because request ids are unique only per client (T-MOD-13). ``log_level`` is "" if the
    request did not ask for log messages (LOG-03). The results name ``server``.
    """

    __slots__ = ("_id", "server")

    def __init__(self, said: Envelope, principal_key: str, server: Server, exchange_id: str = "") -> None:
        # The fields are set directly instead of through the stored form, because every request creates an
        # exchange and few are stored.
        self._id = exchange_id
        self.principal_key, self.server, self.path = principal_key, server, server.path
        self.created_at = clock.timestamp()
        self.transport = MODERN
        self.version = said.version
        read = _read if len(said.said) <= MEMO_BYTES else _read.__wrapped__
        self.capabilities, self.raw_capabilities, self.client_info, client = read(said)
        self.log_level = said.log_level
        # The default server's path is left out, so that its records have the same ids as in earlier versions.
        self.record_id = _record_id(principal_key, client if self.path == ENDPOINT else (*client, self.path))
        self.initialized = True
        self.in_flight = {}

    @property
    def id(self) -> str:  # type: ignore[override]
        """The random id. It is created at the first use, because most requests do not need it."""
        self._id = self._id or "x-" + os.urandom(15).hex()
        return self._id

    def stored(self) -> dict[str, str]:
        # These two fields belong to sessions only, but the stored form is the same for both.
        return {**super().stored(), "initialized": "0", "announced": "0", MADE_IN: self.record_id}

    def fit(self, method: str, result: dict[str, Any]) -> dict[str, Any]:
        return downlevel.complete(method, downlevel.result(method, result, self.version), self.server.meta)

    def complete(self, method: str, result: dict[str, Any]) -> dict[str, Any]:
        return downlevel.complete(method, result, self.server.meta)

    def answer(self, request: jsonrpc.Request, result: dict[str, Any] | bytes) -> bytes:
        if type(result) is dict and not (result and _COMMON.isdisjoint(result)):
            return jsonrpc.encode_result(request.id, self.complete(request.method, result))
        return jsonrpc.encode_result(request.id, result, self.server.opening(request.method))


def restored(exchange_id: str, fields: dict[str, str]) -> Exchange:
    """Return the modern request that stored fields describe.

    The fields contain the path of the request's server.
    """
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
    """Return the capabilities, client info and identifying values of a request's client.

    The result is cached, so callers must not change it.
    """
    info = bounded(said.client_info)
    # Elicitation and sampling have the same structure as in revision 2025-11-25.
    capabilities = ClientCapabilities.parse(said.capabilities, V2025_11_25)
    client = (said.version, info.get("name", ""), info.get("version", ""))
    return capabilities, known(said.capabilities), info, client


@lru_cache(maxsize=1_000)
def _record_id(principal_key: str, client: tuple[str, ...]) -> str:
    """Return the id of the record for a principal's client.

    The id is the same for all requests of that client to a server.
    """
    parts = "\0".join((principal_key, *client))
    return CLIENT_RECORD + hashlib.sha256(parts.encode()).hexdigest()[:40]
