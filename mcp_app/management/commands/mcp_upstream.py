"""``manage.py mcp_upstream``: add, list, refresh and remove upstream MCP servers."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from asgiref.sync import async_to_sync
from django.core.exceptions import PermissionDenied, ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from mcp_app.catalogue.upstreams import bringing, configurations, importing, refreshing, storing
from mcp_app.catalogue.upstreams.entries import entries_of
from mcp_app.interface.text import counted, marked
from mcp_app.management.actors import actor_named
from mcp_app.models import Upstream
from mcp_app.protocol.client.faults import UpstreamFault
from mcp_app.upstreams import bridge, health


class Command(BaseCommand):
    """Offer the tools, prompts and resources of other MCP servers, at first as drafts."""

    help = "Add, list, refresh and remove upstream MCP servers."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        add = actions.add_parser("add", help="add a server, and import what it lists as drafts")
        add.add_argument("name")
        add.add_argument("url", nargs="?", default="")
        add.add_argument("--command", default="", help="a command of the settings, instead of a URL")
        add.add_argument("--prefix", default="", help="put in front of the tools' names; default: the name")
        add.add_argument("--credential", default="", metavar="NAME", help="a stored credential")
        add.add_argument(
            "--user-connections", action="store_true", help="each user connects an account by OAuth"
        )
        add.add_argument(
            "--oauth-client", default="", metavar="NAME", help="a stored credential of the kind oauth_client"
        )
        add.add_argument(
            "--token-exchange", default="", metavar="NAME",
            help="a stored credential of the kind token_exchange",
        )  # fmt: skip
        add.add_argument("--era", choices=Upstream.Era.values, default=Upstream.Era.AUTO)
        add.add_argument("--isolation", choices=Upstream.Isolation.values, default=Upstream.Isolation.SESSION)
        add.add_argument("--timeout", type=float, default=60.0, metavar="SECONDS")
        add.add_argument("--sampling", action="store_true", help="relay its prompts to models of clients")
        add.add_argument("--roots", action="store_true", help="relay its requests for folders of clients")
        add.add_argument(
            "--tool", "--item", dest="items", action="append", default=[], metavar="PATTERN",
            help="a name or URI, such as search or list_*; may be repeated; default: all",
        )  # fmt: skip
        add.add_argument("--publish", action="store_true", help="offer them to clients at once")
        bring = actions.add_parser("bring", help="add the servers of a client's configuration")
        bring.add_argument(
            "file", help="mcp.json, a configuration of a client, or server.json; - reads the input"
        )
        actions.add_parser("list", help="print the servers")
        refresh = actions.add_parser("refresh", help="read its lists again, and save drafts of changes")
        refresh.add_argument("name")
        remove = actions.add_parser("remove", help="delete a server with its entries")
        remove.add_argument("name")
        logs = actions.add_parser("logs", help="print the last error output of a server over stdio")
        logs.add_argument("name")
        for each in (add, bring, refresh, remove):
            each.add_argument(
                "--actor", metavar="USERNAME", help="the user recorded in history and audit trail"
            )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            getattr(self, f"_{options['action']}")(options)
        except ValidationError as error:
            raise CommandError(f"Refused. {' '.join(error.messages)}") from error
        except PermissionDenied as error:
            raise CommandError(f"Refused. {error}") from error

    def _add(self, options: dict[str, Any]) -> None:
        actor = actor_named(options["actor"])
        named = (name for name in storing.FIELDS if name not in ("timeout_seconds", "enabled"))
        values = {name: options[name] for name in named}
        row = storing.save_upstream(
            actor=actor, name=options["name"], timeout_seconds=options["timeout"], **values
        )
        self._read(row, actor)
        row.refresh_from_db()
        patterns = options["items"]
        chosen = importing.chosen(row, patterns, every=not patterns)
        if not chosen:
            self.stdout.write(f"Added {row.name}. Nothing fits.")
            return
        done = importing.import_items(upstream=row, keys=chosen, actor=actor, publish=options["publish"])
        for name, reason in done.skipped.items():
            self.stdout.write(marked(f"skipped  {name}: {reason}"))
        if options["publish"]:
            number = counted(len(done.published), "entry", "entries")
            text = f"Published {number} of {row.name} as revision {done.revision}."
        else:
            number = counted(len(done.drafts), "draft")
            text = f"Saved {number} of {row.name}. Drafts are published in the admin."
        self.stdout.write(text)

    def _bring(self, options: dict[str, Any]) -> None:
        try:
            text = sys.stdin.read() if options["file"] == "-" else Path(options["file"]).read_text()
            servers = configurations.read(text)
        except (OSError, ValueError) as error:
            raise CommandError(f"Nothing was added. {error}") from error
        added, refused = bringing.add_servers(servers=servers, actor=actor_named(options["actor"]))
        for row in added:
            self.stdout.write(marked(f"Added {row.name}: refresh it, then publish its entries in the admin."))
        for name, reason in refused.items():
            self.stdout.write(marked(f"Not added: {name}. {reason}"))

    def _list(self, options: dict[str, Any]) -> None:
        for row in Upstream.objects.defer("listed"):
            state = health.of(row.pk).state if row.enabled else "disabled"
            address = f"command {row.command}" if row.command else row.address
            number = counted(len(entries_of(row)), "entry", "entries")
            self.stdout.write(marked(f"{row.name}  {address}  {state}  {number}"))

    def _logs(self, options: dict[str, Any]) -> None:
        row = _stored(options["name"])
        if not row.command:
            raise CommandError(f"{row.name} has no command: it is not a server over stdio.")
        try:
            found = async_to_sync(bridge.status)().get(row.command, {})
        except UpstreamFault as fault:
            raise CommandError(marked(f"The server {row.name} {fault}")) from fault
        for line in found.get("errors", []):
            at = datetime.fromtimestamp(line["at"], UTC)
            self.stdout.write(f"{at:%Y-%m-%dT%H:%M:%SZ}  {line['pid']}  {marked(line['text'])}")
        if end := found.get("last_end"):
            self.stdout.write(marked(f"last end: {end['text']}"))

    def _refresh(self, options: dict[str, Any]) -> None:
        self._read(_stored(options["name"]), actor_named(options["actor"]))

    def _remove(self, options: dict[str, Any]) -> None:
        row = _stored(options["name"])
        number = storing.delete_upstream(upstream=row, actor=actor_named(options["actor"]))
        self.stdout.write(f"Removed {options['name']} and {counted(number, 'entry', 'entries')}.")

    def _read(self, row: Upstream, actor: Any) -> None:
        try:
            done = refreshing.refresh(upstream=row, actor=actor)
        except UpstreamFault as fault:
            raise CommandError(marked(f"The server {row.name} {fault}")) from fault
        for name, reason in done.skipped.items():
            self.stdout.write(marked(f"skipped  {name}: {reason}"))
        self.stdout.write(
            f"Read {done.counted()} of {row.name}: {len(done.drafts)} changed, {len(done.gone)} gone."
        )


def _stored(name: str) -> Upstream:
    row = Upstream.objects.filter(name=name).first()
    if row is None:
        raise CommandError(f"There is no upstream server {name!r}.")
    return row
