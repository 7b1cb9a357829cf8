"""The project's ASGI application: MCP, and Django with limits for the bodies of its requests."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from functools import partial
from typing import IO, Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mcpsite.settings")

import django
from django.core.handlers.asgi import ASGIHandler, ASGIRequest
from django.http.response import HttpResponseBase

django.setup(set_prefix=False)

from mcp_app.asgi import get_application  # noqa: E402
from mcp_app.auth.own_addresses import SERVER_METADATA, offers_oauth  # noqa: E402
from mcp_app.transports.health import not_there  # noqa: E402
from mcpsite.http.bodies import bounded  # noqa: E402
from mcpsite.pages import pages  # noqa: E402


class Pages(ASGIHandler):
    """Django's handler with limits for bodies, and with errors for an unreachable database."""

    def __init__(self) -> None:
        super().__init__()
        self._front = pages(super().__call__)  # type: ignore[arg-type]

    def create_request(
        self, scope: Mapping[str, Any], body_file: IO[bytes]
    ) -> tuple[ASGIRequest, None] | tuple[None, HttpResponseBase]:
        """Build a request whose form is decoded as UTF-8, even if the request declares another charset.

        Django refuses other charsets. When it renders that error, it fails in the same way, which would be
        a 500.
        """
        made = super().create_request(scope, body_file)
        if made[0] is not None and made[0].content_type == "application/x-www-form-urlencoded":
            made[0].encoding = "utf-8"
        return made

    async def __call__(  # type: ignore[override]
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> None:
        """Serve one request that is not for MCP."""
        path = scope["path"]
        # Clients look for an authorization server there before each connection, so a warning would not be
        # useful.
        absent = path.startswith("/.well-known/") and not (
            path.startswith(SERVER_METADATA) and offers_oauth()
        )
        await bounded(not_there if absent else self._front, scope, receive, send)


application = get_application(Pages())
# MCP's endpoints limit bodies themselves: they authenticate first and have their own errors.
for path in ("/healthz", "/readyz"):
    application.routes[path] = partial(bounded, application.routes[path])
