"""A legacy session as one process sees it, and its stored form."""

from __future__ import annotations

import time
from typing import Any

import orjson

from mcp_app.protocol.capabilities import ClientCapabilities

STANDALONE = "standalone"
# The member of a stored session that says it may have background calls.
HAD_CALLS = "calls"


class Session:
    """The live copy of one session in this process; the stored copy is the truth.

    ``announced`` is the catalogue revision its client was last told of. ``in_flight`` holds the running
    calls of this session in this process by JSON-RPC id.
    """

    __slots__ = (
        "announced",
        "capabilities",
        "checked_at",
        "client_info",
        "created_at",
        "id",
        "in_flight",
        "initialized",
        "log_level",
        "principal_key",
        "raw_capabilities",
        "version",
        "warned_version",
    )

    def __init__(self, session_id: str, fields: dict[str, str]) -> None:
        self.id = session_id
        self.version = fields["version"]
        self.principal_key = fields["principal"]
        self.created_at = float(fields["created"])
        self.client_info: dict[str, Any] = orjson.loads(fields["client"])
        self.raw_capabilities: dict[str, Any] = orjson.loads(fields["capabilities"])
        self.capabilities = ClientCapabilities.parse(self.raw_capabilities, self.version)
        self.in_flight: dict[str | int, Any] = {}
        self.warned_version = False
        self.checked_at = time.monotonic()
        self.refresh(fields)

    def refresh(self, fields: dict[str, str]) -> None:
        """Take over the members that change during a session's life."""
        self.log_level = fields.get("log_level", "info")
        self.initialized = fields.get("initialized") == "1"
        self.announced = int(fields.get("announced", "0"))
        self.checked_at = time.monotonic()

    @property
    def client_name(self) -> str:
        """What the client calls itself; untrusted text."""
        return str(self.client_info.get("name", ""))


def stored_fields(
    *, version: str, principal: str, client_info: dict[str, Any], capabilities: dict[str, Any], announced: int
) -> dict[str, str]:
    """The stored form of a new session."""
    return {
        "version": version,
        "principal": principal,
        "client": orjson.dumps(client_info).decode(),
        "capabilities": orjson.dumps(capabilities).decode(),
        "created": repr(time.time()),
        "initialized": "0",
        "log_level": "info",
        "announced": str(announced),
    }
