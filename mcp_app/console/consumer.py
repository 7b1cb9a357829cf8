"""A WebSocket connection of the console: its access checks, incoming messages and outgoing frames."""

from __future__ import annotations

import asyncio
import logging

import orjson
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.db import Error as DatabaseFault
from django.utils import timezone

from mcp_app.auth.time_zone import zone_of
from mcp_app.console.access import MESSAGES, NEEDS, SESSIONS, may, visitor
from mcp_app.console.feed import Feed
from mcp_app.console.viewer import FRAME_SECONDS, Viewer, ViewerStalled
from mcp_app.database.queries import aquery
from mcp_app.message_log.search.language import LONGEST, Search, parse
from mcp_app.notices.channels import waiting_for
from mcp_app.streams.base import StreamsError

# Seconds between two access checks. A logout or a lost permission ends the connection within this time.
CHECK_SECONDS = 10.0
# Seconds between two queries for pending tasks, for each page that shows them.
NEEDS_SECONDS = 5.0
LONGEST_MESSAGE = 2_048
# Maximum number of messages that a page may send. It confirms ten frames a second and rarely changes its
# search.
MESSAGES_PER_SECOND = 40
NOT_ALLOWED, TOO_MUCH, NOT_UNDERSTOOD, STALLED, LATER = 4403, 4429, 4400, 4408, 1013

log = logging.getLogger("mcp.console")


class LiveConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]
    """A connection that sends frames to a page.

    The page confirms each frame after it has drawn the frame.
    """

    def __init__(self, feed: Feed) -> None:
        super().__init__()
        self._feed = feed
        self._viewer = Viewer()
        self._permission: tuple[str, ...] = (SESSIONS,)
        self._tasks: list[asyncio.Task[None]] = []
        self._needs: asyncio.Task[None] | None = None
        self._second = 0.0
        self._said = 0
        self._closed = False

    async def connect(self) -> None:
        """Accept users who have any of the console's permissions.

        Each subscription is checked separately.
        """
        self._key = self.scope["cookies"].get(settings.SESSION_COOKIE_NAME, "")
        try:
            allowed = await self._may((SESSIONS, MESSAGES, *NEEDS))
        except DatabaseFault as error:
            log.warning("A console user could not be authenticated: %s", error)
            allowed = False
        await (self.accept() if allowed else self.close())

    async def disconnect(self, code: int) -> None:
        """Cancel the tasks and remove the viewer."""
        self._stop_needs()
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await self._feed.leave(self._viewer)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Handle a message from the page: a new subscription, or the confirmation of a frame."""
        if self._closed:
            return
        if text_data is None or len(text_data) > LONGEST_MESSAGE:
            await self._hang_up(NOT_UNDERSTOOD)
        elif self._is_too_much():
            await self._hang_up(TOO_MUCH)
        else:
            await self._on_message(text_data)

    async def _on_message(self, text: str) -> None:
        try:
            said = orjson.loads(text)
        except orjson.JSONDecodeError:
            said = None
        match said:
            case {"drawn": int(frame)}:
                self._viewer.drawn(frame)
            case {"watch": "sessions"}:
                await self._begin((SESSIONS,))
            case {"watch": "messages", "search": str(search), "session": str(session)} if (
                len(search) <= LONGEST and len(session) <= 64
            ):
                await self._begin((MESSAGES,), search, session)
            case {"watch": "needs"}:
                await self._begin(NEEDS)
            case _:
                await self._hang_up(NOT_UNDERSTOOD)

    def _is_too_much(self) -> bool:
        now = asyncio.get_running_loop().time()
        if now - self._second >= 1:
            self._second, self._said = now, 0
        self._said += 1
        return self._said > MESSAGES_PER_SECOND

    async def _begin(self, permission: tuple[str, ...], search: str = "", session: str = "") -> None:
        try:
            await self._watch(permission, search, session)
        except (DatabaseFault, StreamsError) as error:
            log.warning("The console is unavailable: %s", error)
            await self._hang_up(LATER)

    async def _watch(self, permission: tuple[str, ...], search: str = "", session: str = "") -> None:
        if not await self._may(permission):
            await self._hang_up(NOT_ALLOWED)
            return
        # End the previous subscription directly after the check and before the first await.
        self._viewer.watch_nothing()
        self._stop_needs()
        self._permission = permission
        if permission == (SESSIONS,):
            self._viewer.watch_sessions()
        elif permission == (MESSAGES,):
            parsed = await aquery(_parsed, self._key, search)
            self._viewer.watch_messages(parsed, session)
            self._viewer.queue_data("problems", list(parsed.problems))
        # Pending tasks are read from the database. The feed, which makes processes read the log, is not
        # needed.
        if permission == NEEDS:
            await self._feed.leave(self._viewer)
        else:
            await self._feed.join(self._viewer)
        self._viewer.now_watching({(SESSIONS,): "sessions", NEEDS: "needs"}.get(permission, search))
        if self._closed:
            return
        if not self._tasks:
            self._tasks = [asyncio.create_task(self._send_on()), asyncio.create_task(self._check_on())]
        if permission == NEEDS:
            self._needs = asyncio.create_task(self._send_tasks())

    def _stop_needs(self) -> None:
        if self._needs is not None:
            self._needs.cancel()
            self._needs = None

    async def _send_on(self) -> None:
        try:
            while True:
                await self.send(text_data=await self._viewer.next_frame())
                await asyncio.sleep(FRAME_SECONDS)
        except ViewerStalled:
            await self._hang_up(STALLED)
        except OSError:
            return  # The page is closed; ``disconnect`` follows.

    async def _check_on(self) -> None:
        """Close the connection within CHECK_SECONDS after a logout or the loss of a permission."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            try:
                allowed = await self._may(self._permission)
            except DatabaseFault as error:
                # Without the database, the viewer's access cannot be checked, so nothing more is sent. The
                # page reconnects.
                log.warning("The permissions of console users could not be checked: %s", error)
                await self._hang_up(LATER)
                return
            if not allowed:
                await self._hang_up(NOT_ALLOWED)
                return

    async def _send_tasks(self) -> None:
        """Send the viewer's pending tasks whenever they change."""
        last_sent: list[dict[str, str]] | None = None
        while True:
            try:
                found = await aquery(_needs, self._key)
                if found != last_sent:
                    self._viewer.queue_data("needs", {"all": found})
                last_sent = found
            except DatabaseFault as error:
                log.warning("The open tasks of a console user could not be read: %s", error)
            await asyncio.sleep(NEEDS_SECONDS)

    async def _may(self, permission: tuple[str, ...]) -> bool:
        return await aquery(may, self._key, permission)

    async def _hang_up(self, code: int) -> None:
        """Close the connection and stop sending."""
        own = asyncio.current_task()
        self._stop_needs()
        for task in self._tasks:
            if task is not own:
                task.cancel()
        if not self._closed:
            self._closed = True
            await self.close(code=code)


def _parsed(session_key: str, text: str) -> Search:
    """Parse a search. Times without a zone are read in the viewer's time zone."""
    with timezone.override(zone_of(visitor(session_key))):
        return parse(text)


def _needs(session_key: str) -> list[dict[str, str]]:
    """Return the viewer's pending tasks of those kinds for which the viewer chose browser notifications."""
    user = visitor(session_key)
    return [] if user is None else waiting_for(user)
