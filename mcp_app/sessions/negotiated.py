"""The client of a message: its identity, and the negotiated revision and capabilities."""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from mcp_app.protocol import downlevel
from mcp_app.protocol.capabilities import ClientCapabilities
from mcp_app.protocol.errors import InvalidRequest
from mcp_app.protocol.messages import jsonrpc
from mcp_app.protocol.messages.server import ENDPOINT


class Negotiated:
    """A legacy session or a single modern request.

    ``in_flight`` maps JSON-RPC ids to the calls that run in this process. ``transport`` is "" for Streamable
    HTTP. ``path`` is the path of the MCP server. ``record_id`` identifies the operators' record under which
    messages are logged. As long as ``initialized`` is False, the client must not be asked questions
    (LIFE-04).
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

    # There is no common constructor. Every request creates an exchange, and setting the attributes directly
    # is faster.
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
        """Raise InvalidRequest if a call with this request id runs in this process (RPC-03)."""
        if request_id in self.in_flight:
            raise InvalidRequest(
                f"Request id {request_id!r} is still in flight in this session.", http_status=200
            )

    def stored(self) -> dict[str, str]:
        """Return the fields with which a background call stores its caller."""
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
        """Return a result in the form of the negotiated revision (GEN-01)."""
        return downlevel.result(method, result, self.version)

    def message(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        """Return the params of a message in the form of the negotiated revision (GEN-01).

        Returns None if that revision does not have the message.
        """
        return downlevel.message(method, params, self.version)

    def complete(self, method: str, result: dict[str, Any]) -> dict[str, Any]:
        """Return a result with the members that the negotiated revision requires in every result."""
        return result

    def answer(self, request: jsonrpc.Request, result: dict[str, Any] | bytes) -> bytes:
        """Return the encoded response with a completed result.

        ``bytes`` are a result that is already encoded.
        """
        return jsonrpc.encode_result(request.id, result)

    @property
    def client_name(self) -> str:
        """The name that the client sent. The text is untrusted."""
        return str(self.client_info.get("name", ""))


class Agreed(NamedTuple):
    """The values negotiated by a client's ``initialize``, and the fields to store for them."""

    version: str
    client_name: str
    client_version: str
    fields: dict[str, str]


def negotiated_fields(
    version: str, client_info: dict[str, Any], capabilities: dict[str, Any]
) -> dict[str, str]:
    """Return the fields to store for the values negotiated by ``initialize``."""
    return {
        "version": version,
        "client": orjson.dumps(client_info).decode(),
        "capabilities": orjson.dumps(capabilities).decode(),
    }
