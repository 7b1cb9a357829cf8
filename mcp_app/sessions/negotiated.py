"""What handlers and calls know of the other side: who it is, and what client and server agreed on."""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from mcp_app.protocol import downlevel
from mcp_app.protocol.capabilities import ClientCapabilities
from mcp_app.protocol.errors import InvalidRequest
from mcp_app.protocol.messages import jsonrpc
from mcp_app.protocol.messages.server import ENDPOINT


class Negotiated:
    """A session of the revisions that have them, or a single request of the one that has none.

    ``in_flight`` holds its running calls in this process by JSON-RPC id. ``transport`` is empty for
    Streamable HTTP; ``path`` is that of its server. ``record_id`` names the operator's record that its
    messages belong to. Nothing is asked of a client that has not confirmed it (``initialized``, LIFE-04).
    """

    __slots__ = (
        "capabilities",
        "client_info",
        "created_at",
        "id",
        "in_flight",
        "initialized",
        "log_level",
        "path",
        "principal_key",
        "raw_capabilities",
        "record_id",
        "transport",
        "version",
    )

    # Each kind sets them itself, from what it is made of: an exchange is made for every request.
    id: str
    record_id: str
    principal_key: str
    created_at: float
    transport: str
    path: str
    version: str
    client_info: dict[str, Any]
    raw_capabilities: dict[str, Any]
    capabilities: ClientCapabilities
    log_level: str
    initialized: bool
    in_flight: dict[str | int, Any]

    def check_free(self, request_id: str | int) -> None:
        """Raise InvalidRequest for the id of a call that runs in this process (RPC-03)."""
        if request_id in self.in_flight:
            raise InvalidRequest(
                f"Request id {request_id!r} is still in flight in this session.", http_status=200
            )

    def stored(self) -> dict[str, str]:
        """The form in which a background call keeps what it has to know of its caller."""
        fields = {
            **negotiated_fields(self.version, self.client_info, self.raw_capabilities),
            "principal": self.principal_key,
            "transport": self.transport,
            "created": repr(self.created_at),
            "log_level": self.log_level,
        }
        if self.path != ENDPOINT:
            fields["path"] = self.path
        return fields

    def fit(self, method: str, result: dict[str, Any]) -> dict[str, Any]:
        """A result in the form its revision knows (GEN-01)."""
        return downlevel.result(method, result, self.version)

    def message(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        """The params of a message of ours as its revision knows them; None if it cannot carry it (GEN-01)."""
        return downlevel.message(method, params, self.version)

    def complete(self, method: str, result: dict[str, Any]) -> dict[str, Any]:
        """A fitting result with what its revision wants on every result."""
        return result

    def answer(self, request: jsonrpc.Request, result: dict[str, Any] | bytes) -> bytes:
        """The response that carries a fitting result, completed; ``bytes`` are one encoded already."""
        return jsonrpc.encode_result(request.id, result)

    @property
    def client_name(self) -> str:
        """What the client calls itself; untrusted text."""
        return str(self.client_info.get("name", ""))


class Agreed(NamedTuple):
    """What became of what a client proposed with ``initialize``, and its stored form."""

    version: str
    client_name: str
    client_version: str
    fields: dict[str, str]


def negotiated_fields(
    version: str, client_info: dict[str, Any], capabilities: dict[str, Any]
) -> dict[str, str]:
    """The stored form of what ``initialize`` negotiated."""
    return {
        "version": version,
        "client": orjson.dumps(client_info).decode(),
        "capabilities": orjson.dumps(capabilities).decode(),
    }
