"""The standalone stream of a session: a lease that allows one reader, and the delivered position."""

from __future__ import annotations

import asyncio

from mcp_app.sessions.session import STANDALONE, LiveSession
from mcp_app.streams.gateway import Streams

# A lease lasts this many seconds longer than the interval between two renewals.
MARGIN_SECONDS = 5.0
TAKEOVER_SECONDS = 2.0


class Standalone:
    """Leases that give a standalone stream to one connection (T-GET-06).

    The class also stores the delivered position of each stream (T-GET-09).
    """

    def __init__(self, streams: Streams, renewed_every: float) -> None:
        """Create the leases.

        ``renewed_every`` is the number of seconds between two calls of ``renew`` for an open connection.
        """
        self._streams = streams
        self._lease_seconds = renewed_every + MARGIN_SECONDS
        self._holders: set[str] = set()

    async def listen(self, session: LiveSession, token: str, *, take_over: bool) -> bool:
        """Acquire the lease of a session's standalone stream for the connection ``token``.

        Returns False if another connection has the lease and ``take_over`` is False. A client that resumes
        passes True: it has lost its old connection, even if the process of that connection has not noticed.
        """
        if await self._acquire(session, token):
            return True
        if not take_over:
            return False
        await self._claim(session, token)
        deadline = asyncio.get_running_loop().time() + TAKEOVER_SECONDS
        while not await self._acquire(session, token):
            if asyncio.get_running_loop().time() > deadline:
                return True  # The process of the old connection does not respond. Its lease will expire.
            await asyncio.sleep(0.05)
        return True

    async def renew(self, session: LiveSession, token: str) -> bool:
        """Renew the lease of an open connection. Returns False if a newer connection has acquired it."""
        if await self._acquire(session, token):
            return True
        if token in self._holders:
            return False
        # This connection never had the lease, because another connection resumed at the same moment and
        # acquired it.
        await self._claim(session, token)
        return True

    async def leave(self, session: LiveSession, token: str) -> None:
        """Release the lease of a connection."""
        self._holders.discard(token)
        await self._streams.windows.release(_place(session), token)

    async def position(self, session: LiveSession) -> tuple[int, int]:
        """Return the position at which a new reader starts: after the events sent to earlier connections."""
        epoch, _ = await self._streams.log.open(session.id, STANDALONE)
        fields = await self.catch_up(session)
        seen_epoch, _, seen = fields.get("delivered", "").partition("-")
        return epoch, int(seen) if seen and seen_epoch == str(epoch) else 0

    async def catch_up(self, session: LiveSession) -> dict[str, str]:
        """Load the stored fields of a session and return them.

        The fields contain the revisions that other processes announced, so that none is announced twice.
        """
        fields = await self._streams.sessions.load(session.id) or {}
        if fields:
            session.refresh(fields)
        return fields

    async def delivered(self, session: LiveSession, epoch: int, offset: int) -> None:
        """Store the position up to which events were sent.

        If the connection broke during the write, events may be sent again.
        """
        await self._streams.sessions.update(session.id, {"delivered": f"{epoch}-{offset}"})

    async def _claim(self, session: LiveSession, token: str) -> None:
        """Close all connections to the stream except that of ``token``."""
        taken_over = {"session": session.id, "what": "taken over", "token": token}
        await self._streams.hub.publish("session", taken_over)

    async def _acquire(self, session: LiveSession, token: str) -> bool:
        held = await self._streams.windows.acquire(_place(session), token, 1, self._lease_seconds)
        if held:
            self._holders.add(token)
        return held


def _place(session: LiveSession) -> str:
    return f"listener/{session.id}"
