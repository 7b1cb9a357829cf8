"""The limits of messages, from the settings."""

from __future__ import annotations

from mcp_app.conf import Settings
from mcp_app.protocol.messages import jsonrpc


def message_limits(settings: Settings) -> jsonrpc.Limits:
    """Return the limits for the parser of every transport."""
    return jsonrpc.Limits(
        body_bytes=settings.max_body_bytes,
        depth=settings.max_json_depth,
        members=settings.max_json_members,
        string_bytes=settings.max_string_bytes,
        batch=settings.max_batch,
    )
