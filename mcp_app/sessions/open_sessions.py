"""The sessions of one process: create, load, change, end. A session can be loaded by its principal only."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable
from typing import Any

from django.db import Error as DatabaseFault

from mcp_app.conf import Settings
from mcp_app.database import clock
from mcp_app.database.queries import aquery
from mcp_app.models import Session
from mcp_app.protocol.errors import SessionNotFound, TooManyRequests, Unavailable
from mcp_app.protocol.principal_key import Bound, share_of
from mcp_app.sessions.quota import admit
from mcp_app.sessions.session import HAD_CALLS, LiveSession
from mcp_app.streams.base import Broadcast, SessionEnded
from mcp_app.streams.gateway import Streams

CACHE_LIMIT = 20_000

log = logging.getLogger("mcp.sessions")


class Sessions:
    """The sessions of one process.

    Cached copies of sessions are trusted for a few seconds and then checked again. A broadcast with the topic
    ``session`` ends or refreshes the copies in other processes immediately. If a broadcast is lost, the
    copies are outdated for those few seconds only (R25).
    """

    def __init__(self, streams: Streams, settings: Settings) -> None:
        self._streams = streams
        self._settings = settings
        self._cache: dict[str, LiveSession] = {}
        self._endings = 0
        self._own_name = secrets.token_hex(4)
        self.on_end: list[Callable[[str], None]] = []
        self.on_change: list[Callable[[str], None]] = []
        self.on_take_over: list[Callable[[str, str], None]] = []

    def start(self) -> None:
        """Subscribe to broadcasts about sessions that other processes send."""
        self._streams.hub.subscribe("session", self._on_broadcast)

    @property
    def held(self) -> int:
        """The number of cached sessions."""
        return len(self._cache)

    def cached(self, session_id: str, principal_key: str) -> LiveSession | None:
        """Return the session if its cached copy can be trusted (hot path), else None."""
        session = self._cache.get(session_id)
        if session is None or session.principal_key != principal_key:
            return None
        if time.monotonic() - session.checked_at > self._settings.session_recheck_seconds:
            return None
        return session

    async def create(self, fields: dict[str, str]) -> LiveSession:
        """Open a session with fields from ``stored_fields``.

        Raises TooManyRequests if a limit is reached and Unavailable if Redis is almost full.
        """
        principal_key = fields["principal"]
        await admit(self._streams, principal_key)
        session_id, settings = secrets.token_urlsafe(24), self._settings
        if not await self._streams.sessions.open(
            session_id,
            fields,
            settings.session_idle_seconds,
            _places(principal_key),
            settings.max_sessions_per_principal,
        ):
            raise TooManyRequests("Too many open sessions: end unused ones with DELETE.", retry_after=30)
        return self._remember(LiveSession(session_id, fields))

    async def load(self, session_id: str, principal_key: str) -> LiveSession:
        """Return the session with this id, if it belongs to the principal.

        Raises SessionNotFound for unknown, ended and expired sessions and for those of other principals alike
        (SES-05, SES-09). Raises Unavailable if Redis does not have the session and the database cannot be
        reached.
        """
        session = self.cached(session_id, principal_key)
        if session is not None:
            return session
        if not 16 <= len(session_id) <= 64 or not session_id.isascii():
            raise SessionNotFound
        endings = self._endings
        try:
            fields = await self._streams.sessions.load(session_id)
            if fields is None:
                fields = await self._restore(session_id)
        except SessionEnded:
            self._forget(session_id)
            raise SessionNotFound from None
        if fields["principal"] != principal_key:
            raise SessionNotFound
        if clock.timestamp() - float(fields["created"]) > self._settings.session_max_seconds:
            await self.end(session_id, "expired")
            raise SessionNotFound
        await self._keep(session_id, principal_key)
        session = self._cache.get(session_id)
        if session is None:
            session = self._remember(LiveSession(session_id, fields))
        else:
            session.refresh(fields)
        if endings != self._endings:
            # The session may have ended during the load, so it must be checked again at its next use.
            session.checked_at = 0.0
        return session

    async def _keep(self, session_id: str, principal_key: str) -> None:
        """Extend the life of a session and renew its place among the principal's sessions.

        Raises SessionNotFound if the session has ended.
        """
        await self._admit(session_id, principal_key)
        if not await self._streams.sessions.touch(session_id, self._settings.session_idle_seconds):
            await self._streams.windows.release(_places(principal_key), session_id)
            raise SessionNotFound

    async def _admit(self, session_id: str, principal_key: str) -> bool:
        """Take or renew one of the places that limit the number of a person's sessions (SES-10)."""
        return await self._streams.windows.acquire(
            _places(principal_key),
            session_id,
            self._settings.max_sessions_per_principal,
            self._settings.session_idle_seconds,
        )

    async def change(self, session: LiveSession, **fields: str) -> None:
        """Store changed fields of a session and notify the other processes."""
        await self._streams.sessions.update(session.id, fields, self._broadcast_about(session.id, "changed"))
        stored = {"log_level": session.log_level, "announced": str(session.announced)}
        stored["initialized"] = "1" if session.initialized else "0"
        session.refresh(stored | fields)
        for callback in self.on_change:
            callback(session.id)

    async def announced(self, session: LiveSession, revision: int) -> None:
        """Record the catalogue revision that was last announced to the client.

        If the record is lost, the client only receives a notification twice.
        """
        session.announced = revision
        await self._streams.sessions.update(session.id, {"announced": str(revision)})

    async def end(self, session_id: str, reason: str) -> None:
        """End a session in all processes.

        Its streams close, its calls stop and its id gets 404 (SES-07, R23).
        """
        store, seconds = self._streams.sessions, self._settings.tombstone_seconds
        news = self._broadcast_about(session_id, "ended", reason=reason)
        principal_key = await store.end(session_id, seconds, news)
        self._forget(session_id)  # Done first, because the following steps may fail.
        if principal_key:
            await self._streams.windows.release(_places(principal_key), session_id)

    async def end_without_calls(self, session: LiveSession, reason: str) -> bool:
        """End a session that has never had background calls.

        Returns False and changes nothing if the session may have had some. Raises SessionEnded if the session
        has already ended.
        """
        ended = await self._streams.sessions.end_unless(
            session.id,
            HAD_CALLS,
            self._settings.tombstone_seconds,
            _places(session.principal_key),
            self._broadcast_about(session.id, "ended", reason=reason),
        )
        if ended:
            self._forget(session.id)
        return ended

    def _broadcast_about(self, session_id: str, what: str, **more: str) -> Broadcast:
        """Return the broadcast about a session. The process that sends the broadcast ignores it."""
        return "session", {"session": session_id, "what": what, "by": self._own_name, **more}

    async def _restore(self, session_id: str) -> dict[str, str]:
        """Restore a session that Redis no longer has from its database record.

        Raises SessionNotFound if there is no such record.
        """
        try:
            record = await aquery(find_record, session_id, self._settings.session_idle_seconds)
        except DatabaseFault as error:
            log.warning("A session could not be looked up in the database: %s", error)
            raise Unavailable("The server cannot reach its database now. Try again in a moment.") from None
        if record is None:
            self._forget(session_id)
            raise SessionNotFound
        # The record does not contain this field, so assume that the session had background calls.
        fields = {**record, HAD_CALLS: "1"}
        await self._streams.sessions.create(session_id, fields, self._settings.session_idle_seconds)
        return fields

    def _remember(self, session: LiveSession) -> LiveSession:
        if len(self._cache) >= CACHE_LIMIT:
            for session_id in [item.id for item in self._cache.values() if not item.in_flight][
                : CACHE_LIMIT // 4
            ]:
                del self._cache[session_id]
        self._cache[session.id] = session
        return session

    def _forget(self, session_id: str) -> None:
        self._endings += 1
        session = self._cache.pop(session_id, None)
        if session is not None:
            for call in list(session.in_flight.values()):
                call.cancel("the session ended")
        for callback in self.on_end:
            callback(session_id)

    def _on_broadcast(self, payload: dict[str, Any]) -> None:
        session_id = payload.get("session")
        # Broadcasts may have been missed, so every cached copy must be checked again at its next use.
        if session_id is None:
            for session in self._cache.values():
                session.checked_at = 0.0
        elif payload.get("by") == self._own_name:
            return
        elif payload["what"] == "ended":
            self._forget(session_id)
        elif payload["what"] == "taken over":
            for take_over in self.on_take_over:
                take_over(session_id, payload["token"])
        elif session_id in self._cache:
            self._cache[session_id].checked_at = 0.0
            for callback in self.on_change:
                callback(session_id)


def _places(principal_key: str) -> str:
    """Return the name of the quota that limits a person's sessions (SES-10)."""
    return share_of(Bound.SESSIONS, principal_key)


def find_record(session_id: str, idle_seconds: int) -> dict[str, str] | None:
    """Return the stored fields of an active session, or None. Used if Redis has lost the session.

    A session is not active if it ended or if its last request is more than ``idle_seconds`` ago.
    """
    alive_since = clock.now(-idle_seconds)
    row = Session.objects.filter(pk=session_id, ended_at=None, last_seen_at__gte=alive_since).first()
    return {str(key): str(value) for key, value in row.fields.items()} if row and row.fields else None
