"""A session's standalone stream: one reader at a time, and its delivered position."""

from __future__ import annotations

import asyncio

from mcp_app.sessions.session import STANDALONE, LiveSession
from mcp_app.streams.gateway import Streams

# Difference between the lease and the time between two renewals.
MARGIN_SECONDS = 5.0
TAKE_OVER_SECONDS = 2.0


class Standalone:
    """Leases of standalone streams to one connection (T-GET-06), and their delivered positions (T-GET-09)."""

    def __init__(self, streams: Streams, renewed_every: float) -> None:
        """Create the leases.

        ``renewed_every``: seconds between two calls of ``renew`` for an open connection.
        """
        self._streams = streams
        self._lease_seconds = renewed_every + MARGIN_SECONDS
        self._holders: set[str] = set()

    async def listen(self, session: LiveSession, token: str, *, take_over: bool) -> bool:
        """Become the stream's reader.

        Return False if it has one that may not be replaced. A client that resumes has lost its old
        connection, even if the process that holds it has not noticed.
        """
        if await self._acquire(session, token):
            return True
        if not take_over:
            return False
        await self._claim(session, token)
        deadline = asyncio.get_running_loop().time() + TAKE_OVER_SECONDS
        while not await self._acquire(session, token):
            if asyncio.get_running_loop().time() > deadline:
                return True  # The process of the old connection does not respond. Its lease will expire.
            await asyncio.sleep(0.05)
        return True

    async def renew(self, session: LiveSession, token: str) -> bool:
        """Renew the lease of an open connection. Return False if a newer connection has it."""
        if await self._acquire(session, token):
            return True
        if token in self._holders:
            return False
        # This connection never had the lease: another one resumed at the same instant and got it.
        await self._claim(session, token)
        return True

    async def leave(self, session: LiveSession, token: str) -> None:
        """Release the lease."""
        self._holders.discard(token)
        await self._streams.windows.release(_place(session), token)

    async def position(self, session: LiveSession) -> tuple[int, int]:
        """Return the position for a new reader: after the events sent to earlier connections."""
        epoch, _ = await self._streams.log.open(session.id, STANDALONE)
        fields = await self.catch_up(session)
        seen_epoch, _, seen = fields.get("delivered", "").partition("-")
        return epoch, int(seen) if seen and seen_epoch == str(epoch) else 0

    async def catch_up(self, session: LiveSession) -> dict[str, str]:
        """Load the revisions announced by other processes, to repeat none. Return the stored fields."""
        fields = await self._streams.sessions.load(session.id) or {}
        if fields:
            session.refresh(fields)
        return fields

    async def delivered(self, session: LiveSession, epoch: int, offset: int) -> None:
        """Store the position that was sent. Events may be sent again if the connection broke meanwhile."""
        await self._streams.sessions.update(session.id, {"delivered": f"{epoch}-{offset}"})

    async def _claim(self, session: LiveSession, token: str) -> None:
        """Close all connections except that of ``token``."""
        taken_over = {"session": session.id, "what": "taken over", "token": token}
        await self._streams.hub.publish("session", taken_over)

    async def _acquire(self, session: LiveSession, token: str) -> bool:
        held = await self._streams.windows.acquire(_place(session), token, 1, self._lease_seconds)
        if held:
            self._holders.add(token)
        return held


def _place(session: LiveSession) -> str:
    return f"listener/{session.id}"
