"""The ASGI application of the console's WebSocket. It checks the origin and then calls the consumer."""

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
    """The console's ASGI application.

    The inner application is built at the first WebSocket, because most processes never receive one.
    ``streams`` is called to connect to Redis.
    """

    def __init__(self, streams: Callable[[], Awaitable[Streams]]) -> None:
        self._streams = streams
        self._building = asyncio.Lock()
        self._built: Any = None
        self._of: Streams | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one WebSocket. Connections from other origins or to other addresses are rejected."""
        if not is_socket(scope) or not is_own_origin(scope["headers"]):
            await refuse(receive, send)
            return
        await (await self._application())(scope, receive, send)

    async def _application(self) -> Any:
        async with self._building:
            streams = await self._streams()
            # In tests, one process uses several event loops one after another.
            if self._built is None or self._of is not streams:
                live = LiveConsumer.as_asgi(feed=Feed(streams))
                self._built, self._of = CookieMiddleware(live), streams
            return self._built
