"""completion/complete (specification: server/utilities/completion)."""

from __future__ import annotations

import asyncio
import time

from mcp_app.handlers.context import Params, RequestContext, Result
from mcp_app.observability.correlation import Correlation, correlated
from mcp_app.protocol.errors import InternalError, InvalidParams, TooManyRequests
from mcp_app.protocol.principal_key import Bound, share_of
from mcp_app.protocol.versions import V2025_06_18

# The time limit of a completion. It cannot be cancelled like a call, and clients do not wait longer for it.
SECONDS = 10.0


async def complete(context: RequestContext, params: Params) -> Result:
    """Return completions of an argument (COMP-02 to COMP-06)."""
    ref, argument = params.get("ref"), params.get("argument")
    if type(ref) is not dict or type(argument) is not dict:
        raise InvalidParams("completion/complete needs the objects 'ref' and 'argument'.")
    name, value = argument.get("name"), argument.get("value")
    if type(name) is not str or type(value) is not str:
        raise InvalidParams("The member 'argument' needs the strings 'name' and 'value'.")
    _admit(context)
    known = _known_arguments(context.version, params)
    try:
        asked = Correlation(context.session.id, "", context.request_id, context.principal.key)
        async with asyncio.timeout(SECONDS):
            with correlated(asked):
                values, total, has_more = await context.catalogue.complete(ref, name, value, known)
    except TimeoutError:
        raise InternalError("The completion took too long and was stopped.") from None
    return {"completion": {"values": values, "total": total, "hasMore": has_more}}


def _admit(context: RequestContext) -> None:
    """Raise TooManyRequests if the principal exceeds the rate limit (COMP-05).

    Each process counts separately, because a completion does not justify a query to Redis.
    """
    limit = context.services.settings.completions_per_minute
    if limit:
        share = share_of(Bound.COMPLETIONS, context.principal.key)
        count, rest = context.services.completions.hit(share, time.monotonic())
        if count > limit:
            words = f"Rate limit: {limit} completions a minute. Try again later."
            raise TooManyRequests(words, retry_after=rest)


def _known_arguments(version: str, params: Params) -> dict[str, str]:
    """Return the arguments that are already filled in (COMP-06). Requests have them since 2025-06-18."""
    known = params.get("context")
    arguments = known.get("arguments") if type(known) is dict else None
    if version < V2025_06_18 or type(arguments) is not dict:
        return {}
    return {name: value for name, value in arguments.items() if type(value) is str}
