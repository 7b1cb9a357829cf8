"""A session's standalone stream: one reader at a time, and what it has seen already."""

from __future__ import annotations

import asyncio

from mcp_app.sessions.session import STANDALONE, LiveSession
from mcp_app.streams.gateway import Streams

# How much longer a lease lasts than the time between two renewals.
MARGIN_SECONDS = 5.0
TAKE_OVER_SECONDS = 2.0


class Standalone:
    """Leases the stream to one connection (T-GET-06) and keeps its place between connections (T-GET-09)."""

    def __init__(self, streams: Streams, renewed_every: float) -> None:
        """``renewed_every``: seconds between two calls of ``renew`` for an open connection."""
        self._streams = streams
        self._lease_seconds = renewed_every + MARGIN_SECONDS
        self._holders: set[str] = set()

    async def listen(self, session: LiveSession, token: str, *, take_over: bool) -> bool:
        """Become the stream's reader; False when it has one and it is not to be taken over.

        A client that resumes has lost its old connection, whatever the process that holds it still believes.
        """
        if await self._acquire(session, token):
            return True
        if not take_over:
            return False
        await self._claim(session, token)
        deadline = asyncio.get_running_loop().time() + TAKE_OVER_SECONDS
        while not await self._acquire(session, token):
            if asyncio.get_running_loop().time() > deadline:
                return True  # Its process is gone or deaf; the lease runs out by itself.
            await asyncio.sleep(0.05)
        return True

    async def renew(self, session: LiveSession, token: str) -> bool:
        """Keep the lease while the connection stands; False when a newer connection has it by now."""
        if await self._acquire(session, token):
            return True
        if token in self._holders:
            return False
        # It never was ours: of two connections that resumed at the same instant the other one got it.
        await self._claim(session, token)
        return True

    async def leave(self, session: LiveSession, token: str) -> None:
        """Give the lease back."""
        self._holders.discard(token)
        await self._streams.windows.release(_place(session), token)

    async def position(self, session: LiveSession) -> tuple[int, int]:
        """Where a new reader starts: after what an earlier connection was sent."""
        epoch, _ = await self._streams.log.open(session.id, STANDALONE)
        fields = await self.catch_up(session)
        seen_epoch, _, seen = fields.get("delivered", "").partition("-")
        return epoch, int(seen) if seen and seen_epoch == str(epoch) else 0

    async def catch_up(self, session: LiveSession) -> dict[str, str]:
        """Read what other processes announced to this client, to repeat nothing; the stored fields."""
        fields = await self._streams.sessions.load(session.id) or {}
        if fields:
            session.refresh(fields)
        return fields

    async def delivered(self, session: LiveSession, epoch: int, offset: int) -> None:
        """Remember what was sent; at least once, because the connection may have broken under it."""
        await self._streams.sessions.update(session.id, {"delivered": f"{epoch}-{offset}"})

    async def _claim(self, session: LiveSession, token: str) -> None:
        """Have every connection but that of ``token`` closed."""
        taken_over = {"session": session.id, "what": "taken over", "token": token}
        await self._streams.hub.publish("session", taken_over)

    async def _acquire(self, session: LiveSession, token: str) -> bool:
        held = await self._streams.windows.acquire(_place(session), token, 1, self._lease_seconds)
        if held:
            self._holders.add(token)
        return held


def _place(session: LiveSession) -> str:
    return f"listener/{session.id}"
