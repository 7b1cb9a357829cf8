"""``manage.py mcp_stdio``: serve one client that starts this server as its child (specification: stdio)."""

from __future__ import annotations

import asyncio
import os
import sys
from functools import partial
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from mcp_app import conf
from mcp_app.auth.api_keys import find_principal, principal_of_user
from mcp_app.auth.principal import LOOPBACK, Principal
from mcp_app.catalogue.changes.mirroring import mirror
from mcp_app.catalogue.snapshots.current_snapshot import refreshed_view
from mcp_app.catalogue.snapshots.toolsets import path_of
from mcp_app.foreign_code import outlast
from mcp_app.protocol.messages.server import ENDPOINT

NOBODY = "MCP_AUTH is 'required': pass --user NAME, or set MCP_API_KEY to an API key."


class Command(BaseCommand):
    """Serve MCP on standard input and output. Logs go to standard error."""

    help = "Serve one MCP client on standard input and output; logs go to standard error."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--user", default="", metavar="NAME", help="the user whose permissions the client has"
        )

        parser.add_argument("--toolset", default="", metavar="SLUG", help="the toolset to serve")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            mirror()
            principal = _principal(options["user"])
            path = _path(options["toolset"], principal)
        except DatabaseError as error:
            raise CommandError(f"The database cannot be used: {error}. Run `manage.py migrate`.") from None
        with asyncio.Runner() as runner:
            loop = runner.get_loop()
            serving = loop.create_task(serve_stdio(principal, path))
            outlast(partial(loop.run_until_complete, serving), serving.done)
        sys.stderr.flush()
        # STDIO-04: a tool's thread that is still running must not delay the end of the process.
        os._exit(0)


async def serve_stdio(principal: Principal, path: str = ENDPOINT) -> None:
    """Serve ``principal`` with the MCP server at a path.

    Imports late everything that uses the event loop, after authentication.
    """
    from mcp_app.transports.stdio.application import serve

    await serve(principal, path)


def _path(slug: str, principal: Principal) -> str:
    """Return the path of a toolset's server, or that of the installation's own server for ""."""
    if not slug:
        return ENDPOINT
    server = refreshed_view(principal.permissions, path_of(slug)).server
    if server.removed:
        raise CommandError(server.refusal or f"There is no toolset {slug!r}, or it is disabled.")
    return path_of(slug)


def _principal(name: str) -> Principal:
    """Return the client's principal: a named user, the owner of a key, or the anonymous local user."""
    if name:
        users = get_user_model()
        user = users._default_manager.filter(**{users.USERNAME_FIELD: name}, is_active=True).first()
        if user is None:
            raise CommandError(f"There is no active user {name!r}.")
        return principal_of_user(user, "stdio")
    if secret := os.environ.get("MCP_API_KEY", ""):
        principal = find_principal(secret)
        if principal is None:
            raise CommandError("The key in MCP_API_KEY is unknown, revoked or expired.")
        return principal
    if conf.get().auth == "loopback":
        return LOOPBACK
    raise CommandError(NOBODY)
