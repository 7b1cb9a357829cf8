"""The console's WebSocket application: checks the origin, then routes to a consumer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from channels.sessions import CookieMiddleware

from mcp_app.console.access import is_own_origin
from mcp_app.console.address import is_socket, refuse
from mcp_app.console.consumer import LiveConsumer
from mcp_app.console.feed import Feed
from mcp_app.streams.gateway import Streams

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Console:
    """The console's ASGI application, built at the first WebSocket, because most processes never see one.

    ``streams`` connects to Redis.
    """

    def __init__(self, streams: Callable[[], Awaitable[Streams]]) -> None:
        self._streams = streams
        self._building = asyncio.Lock()
        self._built: Any = None
        self._of: Streams | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one WebSocket; reject other origins and other addresses."""
        if not is_socket(scope) or not is_own_origin(scope["headers"]):
            await refuse(receive, send)
            return
        await (await self._application())(scope, receive, send)

    async def _application(self) -> Any:
        async with self._building:
            streams = await self._streams()
            # In tests, one process serves on several event loops in turn.
            if self._built is None or self._of is not streams:
                live = LiveConsumer.as_asgi(feed=Feed(streams))
                self._built, self._of = CookieMiddleware(live), streams
            return self._built
