"""The ASGI application: MCP, /metrics, health checks and WebSockets have their own, the rest is Django's."""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Awaitable, Callable, MutableMapping
from importlib import import_module
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mcpsite.settings")

from asgiref.sync import sync_to_async
from django.core.asgi import get_asgi_application

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Endpoint = Callable[[Scope, Receive, Send], Awaitable[None]]

# Django must have loaded its apps before anything that touches models is imported.
django: Any = get_asgi_application()

from mcp_app.auth.site import SERVER_METADATA, offers_oauth  # noqa: E402
from mcp_app.catalogue.mirror import mirror  # noqa: E402
from mcp_app.execution import following  # noqa: E402
from mcp_app.transports.application import mcp  # noqa: E402
from mcp_app.transports.resource_metadata import PATHS as METADATA_PATHS  # noqa: E402
from mcp_app.transports.resource_metadata import resource_metadata  # noqa: E402
from mcpsite.bodies import bounded  # noqa: E402
from mcpsite.health import healthz, not_there, readyz  # noqa: E402
from mcpsite.pages import pages  # noqa: E402


async def first_request(scope: Scope, receive: Receive, send: Send) -> None:
    """The first request of a server without lifespan events: Daphne, which ``runserver`` uses.

    Nobody ran ``prepare`` since the developer's last edit, so the catalogue is brought up to date here.
    """
    await sync_to_async(mirror)()
    ROUTES.update({"/mcp": mcp, **OTHERS})
    await ROUTES[scope["path"]](scope, receive, send)


pages_of_django = pages(django)


async def server_metadata(scope: Scope, receive: Receive, send: Send) -> None:
    """The metadata of the authorization server, where there is one; clients ask everywhere."""
    await (pages_of_django if offers_oauth() else not_there)(scope, receive, send)


# A static file is read from disk in one go; that is what the warning says, and they are small.
warnings.filterwarnings("ignore", "StreamingHttpResponse must consume synchronous iterators")

OTHERS: dict[str, Endpoint] = {
    "/metrics": mcp.metrics,
    "/sse": mcp.http_sse,
    "/messages": mcp.http_sse,
    "/messages/": mcp.http_sse,
    "/message": mcp.http_sse,
}
# They ask who it is before they read a body, and bound it in words of their own.
BOUND_THEMSELVES = frozenset({"/mcp", *OTHERS})
ROUTES: dict[str, Endpoint] = {
    "/mcp": first_request,
    **dict.fromkeys(OTHERS, first_request),
    "/healthz": healthz,
    "/readyz": readyz,
    **dict.fromkeys(METADATA_PATHS, resource_metadata),
    **dict.fromkeys(SERVER_METADATA, server_metadata),
}


async def load_console() -> Endpoint:
    """The application for WebSockets. Not on the event loop, because loading takes a tenth of a second."""
    routing = await asyncio.to_thread(import_module, "mcp_app.console.routing")
    if ROUTES["/mcp"] is first_request:
        await sync_to_async(mirror)()
    console: Endpoint = routing.Console(mcp.streams)
    return console


class Application:
    """Routes by exact path, before any middleware; starts and stops the MCP service with the server.

    Uvicorn announces start and stop (lifespan). Daphne does not: there the first request starts the service.
    """

    def __init__(self) -> None:
        self._console: asyncio.Task[Endpoint] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] == "http":
            path = scope["path"]
            if path in BOUND_THEMSELVES:
                await ROUTES[path](scope, receive, send)
            else:
                # Clients look there for an authorization server before each connection: nothing to warn of.
                other = not_there if path.startswith("/.well-known/") else pages_of_django
                await bounded(ROUTES.get(path, other), scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)

    def drain(self) -> None:
        """The server is about to stop: end open event streams so that clients go to another process."""
        mcp.drain()
        following.stop()

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The live console; what it needs is loaded when somebody watches for the first time."""
        if self._console is None or (self._console.done() and self._console.exception() is not None):
            self._console = asyncio.create_task(load_console())
        console = await asyncio.shield(self._console)
        await console(scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while (await receive())["type"] != "lifespan.startup":
            pass
        following.begin()
        await mcp.start()
        ROUTES.update({"/mcp": mcp.endpoint or mcp, **OTHERS})
        await send({"type": "lifespan.startup.complete"})
        while (await receive())["type"] != "lifespan.shutdown":
            pass
        await mcp.close()
        await send({"type": "lifespan.shutdown.complete"})


application = Application()
