"""logging/setLevel (specification: server/utilities/logging)."""

from __future__ import annotations

from mcp_app.handlers.context import Params, RequestContext, Result
from mcp_app.protocol.errors import InvalidParams
from mcp_app.protocol.messages.logging import LEVELS


async def set_level(context: RequestContext, params: Params) -> Result:
    """LOG-01: the level holds for the session, in every process."""
    level = params.get("level")
    if level not in LEVELS:
        raise InvalidParams(f"The member 'level' must be one of: {', '.join(LEVELS)}.")
    await context.services.change_session(context.session, log_level=level)
    return {}
