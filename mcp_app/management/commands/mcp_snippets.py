"""``manage.py mcp_snippets``: print client configurations, and ``server.json`` for a registry."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError, CommandParser

from mcp_app import conf
from mcp_app.connect.address import connection_at, public_url
from mcp_app.connect.connection import ServerConnection
from mcp_app.connect.server_json import server_json
from mcp_app.connect.snippets import CLIENTS, Snippet, snippets

REGISTRY = "server.json"
KNOWN = (*CLIENTS, REGISTRY)


class Command(BaseCommand):
    """Print the configuration of each known client, without database access and without a key."""

    help = "Print configuration snippets that connect clients."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--client", metavar="NAME", help=f"print only the snippet of this client: {', '.join(KNOWN)}"
        )
        parser.add_argument("--url", default="", help="the endpoint as clients reach it (from PUBLIC_URL)")
        parser.add_argument("--json", action="store_true", help="print JSON: a list of objects")

    def handle(self, *args: Any, **options: Any) -> None:
        client = options["client"]
        if client is not None and client not in KNOWN:
            raise CommandError(f"There is no client {client!r}. Known clients: {', '.join(KNOWN)}.")
        chosen = _chosen(_connection(options["url"]), client)
        if options["json"]:
            self.stdout.write(json.dumps([asdict(snippet) for snippet in chosen], indent=2))
        elif client is not None:
            self.stdout.write(chosen[0].text)
        else:
            self.stdout.write("\n\n".join(_for_people(snippet) for snippet in chosen))


def _connection(url: str) -> ServerConnection:
    """Return this server at ``url``, or at its public address. Raises CommandError."""
    try:
        url = url or public_url()
        if not url:
            raise CommandError("The public address is unknown. Set PUBLIC_URL or pass --url.")
        return connection_at(url)
    except (ValueError, ImproperlyConfigured) as wrong:
        raise CommandError(str(wrong)) from None


def _chosen(connection: ServerConnection, client: str | None) -> list[Snippet]:
    document = json.dumps(server_json(connection, conf.get().server.version), indent=2, ensure_ascii=False)
    registry = Snippet(REGISTRY, "MCP registries", REGISTRY, document)
    found = [*snippets(connection), registry]
    return [snippet for snippet in found if client in (None, snippet.client)]


def _for_people(snippet: Snippet) -> str:
    lines = [f"== {snippet.title} ({snippet.client}): {snippet.place}", snippet.text]
    lines += [f"{snippet.link_text}: {snippet.link}"] if snippet.link else []
    lines += [snippet.note] if snippet.note else []
    return "\n".join(lines)
