"""Admission of work that Redis has to keep: by a person's share, and by the fill level of Redis."""

from __future__ import annotations

from mcp_app.conf import Settings
from mcp_app.protocol.errors import McpError, TooManyRequests, Unavailable
from mcp_app.streams.base import KeptFull, StreamsFull
from mcp_app.streams.gateway import Streams, limits_of
from mcp_app.streams.stores import storage_quota

# Streams are forgotten one by one, each a while after its last event.
RETRY_SECONDS = 60
TOO_MUCH = (
    "Too much is kept for you: end sessions you no longer use with DELETE, or wait until older answers and "
    "ended sessions are forgotten. Calls that are answered at once go on."
)
NEARLY_FULL = "The server's Redis is nearly full. Calls that are answered at once go on; try others later."


async def admit(streams: Streams, principal: str) -> None:
    """Let a principal begin what keeps more. Raises TooManyRequests, Unavailable and StreamsUnavailable."""
    try:
        await streams.kept.admit(principal)
    except (KeptFull, StreamsFull) as error:
        raise _refusal(error) from None


def admit_now(settings: Settings, principal: str) -> None:
    """The same for code without an event loop."""
    try:
        storage_quota.admit_now(settings.redis_url, limits_of(settings), principal)
    except (KeptFull, StreamsFull) as error:
        raise _refusal(error) from None


def _refusal(error: KeptFull | StreamsFull) -> McpError:
    if isinstance(error, KeptFull):
        return TooManyRequests(TOO_MUCH, retry_after=RETRY_SECONDS)
    return Unavailable(NEARLY_FULL, retry_after=RETRY_SECONDS)
