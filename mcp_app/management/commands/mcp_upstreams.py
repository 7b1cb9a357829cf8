"""``manage.py mcp_upstreams``: run the bridge to upstream servers over stdio."""

from __future__ import annotations

import asyncio
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from mcp_app import conf
from mcp_app.bridge.service import SocketInUse, serve
from mcp_app.interface.text import counted


class Command(BaseCommand):
    """Run the commands of UPSTREAM_COMMANDS for all processes of this installation."""

    help = "Run upstream MCP servers over stdio, for all processes of this installation."
    requires_system_checks = ()
    requires_migrations_checks = False

    def handle(self, *args: Any, **options: Any) -> None:
        settings = conf.get()
        if not settings.upstream_commands:
            raise CommandError("settings.MCP['UPSTREAM_COMMANDS'] has no commands.")
        self.stdout.write(
            f"Serving {counted(len(settings.upstream_commands), 'command')} at {settings.upstream_socket}"
        )
        try:
            asyncio.run(serve(settings))
        except SocketInUse as error:
            raise CommandError(str(error)) from None
        except OSError as error:
            raise CommandError(f"{settings.upstream_socket} cannot be used: {error.strerror}.") from None
