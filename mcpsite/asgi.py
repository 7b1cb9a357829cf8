"""The ASGI application: /mcp and the health checks go straight to their endpoints, the rest to Django."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mcpsite.settings")

from django.core.asgi import get_asgi_application

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Endpoint = Callable[[Scope, Receive, Send], Awaitable[None]]

# Django must have loaded its apps before anything that touches models is imported.
django: Endpoint = get_asgi_application()

from mcp_app.transports.application import mcp  # noqa: E402
from mcpsite.health import healthz, readyz  # noqa: E402


class Application:
    """Routes by exact path, before any middleware; starts and stops the MCP service with the server.

    Uvicorn announces start and stop (lifespan). Daphne does not, so the first request starts the service
    there, and the end of the process stops it.
    """

    def __init__(self) -> None:
        self._routes: dict[str, Endpoint] = {"/mcp": self._first, "/healthz": healthz, "/readyz": readyz}
        self._starting = asyncio.Lock()
        self._started = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] == "http":
            await self._routes.get(scope["path"], django)(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})

    def drain(self) -> None:
        """The server is about to stop: end open event streams so that clients go to another process."""
        if self._started:
            mcp.drain()

    async def start(self) -> None:
        """Start the MCP service unless it runs; several first requests may ask at once."""
        async with self._starting:
            if not self._started:
                await mcp.start()
                self._started = True
                self._routes["/mcp"] = mcp

    async def stop(self) -> None:
        """Stop the MCP service."""
        if self._started:
            self._started = False
            self._routes["/mcp"] = self._first
            await mcp.stop()

    async def _first(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.start()
        await mcp(scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await self.start()
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return


application = Application()
