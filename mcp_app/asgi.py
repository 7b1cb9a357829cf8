"""The ASGI entry point of a project.

It serves MCP, /metrics and health checks and forwards all other requests. In the ``asgi.py`` of a project::

    application = get_application(get_asgi_application())
"""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
import warnings
from collections.abc import Awaitable, Callable, MutableMapping
from importlib import import_module
from typing import Any

from asgiref.sync import sync_to_async
from django.apps import apps
from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.core.handlers.asgi import ASGIHandler
from django.db import DatabaseError

from mcp_app import servers
from mcp_app.protocol.messages.server import ENDPOINT, MESSAGES, SSE, further_path, own_path

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Endpoint = Callable[[Scope, Receive, Send], Awaitable[None]]

STOPS = (signal.SIGTERM, signal.SIGINT)

log = logging.getLogger("mcp.asgi")


def get_application(project: Any, *, prefix: str = "") -> Routes:
    """Return an ASGI application that serves MCP and forwards all other requests to ``project``.

    ``project`` is the result of ``django.core.asgi.get_asgi_application()`` or an application that wraps
    it. With the ``prefix`` "/ai", the paths are ``/ai/mcp``, ``/ai/healthz`` and so on. Raise
    ImproperlyConfigured if Django is not set up.
    """
    if not apps.ready:
        raise ImproperlyConfigured("Call django.core.asgi.get_asgi_application() before get_application().")
    if prefix and (not prefix.startswith("/") or prefix.endswith("/")):
        raise ImproperlyConfigured(f"The prefix {prefix!r} must begin with a slash and not end in one.")
    return Routes(project, prefix)


class Routes:
    """An ASGI router that runs before any middleware. It also starts and stops the MCP service.

    ``routes`` maps exact paths to endpoints. A further server has the same routes as the installation's
    own.

    Most web servers announce start and stop with lifespan events. Daphne does not, so with Daphne the first
    request starts the service.
    """

    def __init__(self, project: Any, prefix: str = "") -> None:
        # Imported here: Django must have loaded all apps before modules with models can be imported.
        from mcp_app.auth.own_addresses import DOCUMENTS
        from mcp_app.execution import long_poll
        from mcp_app.transports import health
        from mcp_app.transports.application import mcp
        from mcp_app.transports.resource_metadata import resource_metadata

        # The warning concerns static files that are read in one piece. They are small.
        warnings.filterwarnings("ignore", "StreamingHttpResponse must consume synchronous iterators")
        # The type is Any, because some applications, such as Django's, declare narrower messages than they
        # accept.
        self._project: Any = project
        self._prefix = prefix
        self._mcp, self._long_poll = mcp, long_poll
        self._console: asyncio.Task[Endpoint] | None = None
        self._others: dict[str, Endpoint] = {
            "/metrics": mcp.metrics,
            SSE: mcp.http_sse,
            MESSAGES: mcp.http_sse,
            f"{MESSAGES}/": mcp.http_sse,
            "/message": mcp.http_sse,
        }
        self.routes: dict[str, Endpoint] = {
            **dict.fromkeys((ENDPOINT, *self._others), self._first_request),
            **dict.fromkeys((f"{path}/" for path in (ENDPOINT, SSE, *DOCUMENTS)), self._without_slash),
            "/healthz": health.healthz,
            "/readyz": health.readyz,
            **dict.fromkeys(DOCUMENTS, resource_metadata),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] == "http":
            root = scope.get("root_path", "")
            if self._prefix or root:
                await self._http_below(root, scope, receive, send)
            else:
                await (self._route(scope["path"]) or self._project)(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
        else:
            await self._websocket(scope, receive, send)

    def _route(self, path: str) -> Endpoint | None:
        """Return the endpoint for a path, or None if the path belongs to the project."""
        found = self.routes.get(path)
        if found is None and (found := self.routes.get(own_path(path))):
            if self.routes[ENDPOINT] == self._first_request:
                return self._first_request  # Further servers are unknown until the catalogue is loaded.
            server = servers.at(further_path(path))
            if server.removed and not server.fault:
                return None
        return found

    def drain(self) -> None:
        """End open event streams before the server stops. Their clients then reconnect to another process."""
        self._mcp.drain()
        self._long_poll.stop()

    async def _http_below(self, root: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request if the project has a mount path or MCP has a prefix."""
        # According to the specification, the path includes the root path, but some servers omit it.
        inner = scope["path"].removeprefix(root)
        path = inner.removeprefix(self._prefix)
        route = self._route(path) if inner == self._prefix + path else None
        if route is None:
            await self._project(scope, receive, send)
        else:
            await route({**scope, "path": path, "root_path": root + self._prefix}, receive, send)

    async def _without_slash(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a path with a trailing slash like the path without it."""
        path = scope["path"].removesuffix("/")
        await (self._route(path) or self._project)({**scope, "path": path}, receive, send)

    async def _first_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Start MCP with the first request, because the web server (such as Daphne) sends no lifespan events.

        The developer may have edited code since the last start, so the catalogue is updated first.
        """
        from mcp_app.catalogue.changes.mirroring import mirror

        log.info("The web server does not support ASGI lifespan; MCP starts now.")
        await sync_to_async(mirror)()
        await self._mcp.start()
        self._serve()
        await (self._route(scope["path"]) or self._project)(scope, receive, send)

    def _serve(self) -> None:
        self.routes.update({ENDPOINT: self._mcp.endpoint or self._mcp, **self._others})

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a WebSocket of the live console. Its libraries are loaded for the first connection."""
        from mcp_app.console import address

        if not address.is_socket(scope):
            # Django's handler does not accept WebSockets, but an application of the project that wraps it
            # may.
            is_plain = isinstance(self._project, ASGIHandler)
            await (address.refuse(receive, send) if is_plain else self._project(scope, receive, send))
            return
        if self._console is None or (self._console.done() and self._console.exception() is not None):
            self._console = asyncio.create_task(self._load_console())
        console = await asyncio.shield(self._console)
        await console(scope, receive, send)

    async def _load_console(self) -> Endpoint:
        """Return the console's WebSocket application.

        It is imported in a thread, because the import takes a tenth of a second.
        """
        from mcp_app.catalogue.changes.mirroring import mirror

        routing = await asyncio.to_thread(import_module, "mcp_app.console.routing")
        if self.routes[ENDPOINT] == self._first_request:
            await sync_to_async(mirror)()
        console: Endpoint = routing.Console(self._mcp.streams)
        return console

    async def _lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        from mcp_app.catalogue.changes.mirroring import mirror
        from mcp_app.database.queries import aquery
        from mcp_app.database.threads.scheduling import yield_to_event_loop

        while (await receive())["type"] != "lifespan.startup":
            pass
        project = _ProjectLifespan(self._project, scope)
        if refused := await project.send_event("lifespan.startup"):
            await send(refused)
            return
        if django_settings.DEBUG:
            # In development, servers are restarted after an edit without `migrate`.
            await sync_to_async(mirror)()
        else:
            await aquery(_log_missing_entries)
        # The ORM calls of async tools run in the thread of ``sync_to_async``. It should not preempt the
        # event loop.
        await sync_to_async(yield_to_event_loop)()
        self._long_poll.begin()
        self._mcp.announced = True
        await self._mcp.start()
        self._serve()
        _before_stopping(self.drain)
        await send({"type": "lifespan.startup.complete"})
        while (await receive())["type"] != "lifespan.shutdown":
            pass
        self.drain()
        await project.send_event("lifespan.shutdown")
        await self._mcp.close()
        await send({"type": "lifespan.shutdown.complete"})


def _log_missing_entries() -> None:
    """Log the entries in code that clients do not get because `migrate` has not run since they were added."""
    from mcp_app.catalogue.changes.mirroring import not_in_database

    try:
        absent = not_in_database()
    except DatabaseError:
        return  # The database may be down at start. Other parts of the process wait for it.
    if absent:
        names = ", ".join(absent)
        log.warning(
            "Entries in code are missing from the database and not offered: %s. Run `manage.py migrate`.",
            names,
        )


class _ProjectLifespan:
    """The lifespan events of the project's own application, unless that is Django's plain handler."""

    def __init__(self, project: Endpoint, scope: Scope) -> None:
        self._events: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()
        self._replies: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()
        self._task: asyncio.Future[None] | None = None
        if not isinstance(project, ASGIHandler):
            self._task = asyncio.ensure_future(project(scope, self._events.get, self._replies.put))

    async def send_event(self, event: str) -> MutableMapping[str, Any] | None:
        """Send an event and wait for the answer. Return the answer if it reports a failure.

        If the application returns or raises instead of answering, it does not support lifespan events,
        which the specification allows.
        """
        if self._task is None or self._task.done():
            return None
        self._events.put_nowait({"type": event})
        answer = asyncio.ensure_future(self._replies.get())
        await asyncio.wait((answer, self._task), return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            answer.cancel()
            log.info("The project's application has no lifespan: %r", self._task.exception())
            return None
        said = answer.result()
        return said if said["type"].endswith(".failed") else None


def _before_stopping(drain: Callable[[], None]) -> None:
    """Call ``drain`` as soon as the process receives a stop signal.

    A web server waits for open responses before it announces its stop, and event streams stay open for
    minutes. After ``drain`` the server's own signal handler runs.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()
    for number in STOPS:
        before = signal.getsignal(number)
        if callable(before):
            signal.signal(number, _then(before, loop, drain))


def _then(before: Any, loop: asyncio.AbstractEventLoop, drain: Callable[[], None]) -> Any:
    def handle(number: int, frame: Any) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(drain)
        before(number, frame)

    return handle
