"""How large a message may be, by the settings."""

from __future__ import annotations

from mcp_app.conf import Settings
from mcp_app.protocol.messages import jsonrpc


def message_limits(settings: Settings) -> jsonrpc.Limits:
    """What the parser of every transport refuses."""
    return jsonrpc.Limits(
        body_bytes=settings.max_body_bytes,
        depth=settings.max_json_depth,
        members=settings.max_json_members,
        string_bytes=settings.max_string_bytes,
        batch=settings.max_batch,
    )
