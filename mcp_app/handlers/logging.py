"""logging/setLevel (specification: server/utilities/logging)."""

from __future__ import annotations

from typing import cast

from mcp_app.handlers.context import Params, RequestContext, Result
from mcp_app.protocol.errors import InvalidParams
from mcp_app.protocol.messages.logging import LEVELS
from mcp_app.sessions.session import LiveSession


async def set_level(context: RequestContext, params: Params) -> Result:
    """Set the session's log level, for every process (LOG-01)."""
    level = params.get("level")
    if level not in LEVELS:
        raise InvalidParams(f"The member 'level' must be one of: {', '.join(LEVELS)}.")
    # Requests of 2026-07-28 contain their log level and cannot call this method.
    session = cast("LiveSession", context.session)
    await context.services.change_session(session, log_level=level)
    return {}
