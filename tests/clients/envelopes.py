"""The envelope that the server reads from each request of 2026-07-28."""

from __future__ import annotations

from typing import Any

from mcp_app.protocol.messages import envelope
from mcp_app.protocol.versions import V2026_07_28


def envelope_of(
    capabilities: dict[str, Any] | None = None,
    client: dict[str, Any] | None = None,
    version: str = V2026_07_28,
) -> envelope.Envelope:
    """Return the envelope of a request that asks for no log messages."""
    meta = {
        envelope.VERSION: version,
        envelope.CLIENT_CAPABILITIES: capabilities or {},
        envelope.CLIENT_INFO: client or {},
    }
    return envelope.read({"_meta": meta})
