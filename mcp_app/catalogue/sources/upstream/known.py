"""Upstream servers as calls need them. Each process keeps a row for a few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mcp_app import conf
from mcp_app.database.queries import aquery
from mcp_app.models import Upstream
from mcp_app.upstream_commands import UpstreamCommand
from mcp_app.upstreams.server import UpstreamServer

# A change takes effect everywhere within this time.
KEPT_SECONDS: Final = 5.0
_kept: dict[str, KnownUpstream] = {}
# Called on the event loop with the name of a server whose lists changed.
on_list_change: list[Callable[[str], None]] = []


@dataclass(frozen=True, slots=True)
class KnownUpstream:
    """The settings of a server, and the items that are refused, with digest and reason."""

    server: UpstreamServer
    isolation: str
    enabled: bool
    held: Mapping[str, Any]
    sampling: bool
    roots: bool
    user_connections: bool
    token_exchange: str
    read_at: float

    def objection(self, key: str, definition: str) -> str:
        """Return the reason why an item with an approved definition is not used now, or ""."""
        if not self.enabled:
            return "is disabled."
        newest, reason = self.held.get(key) or ("", "")
        return str(reason) if reason and newest != definition else ""


async def known(name: str) -> KnownUpstream | None:
    """Return a server by its name, or None if there is none."""
    found = _kept.get(name)
    if found is None or time.monotonic() - found.read_at > KEPT_SECONDS:
        row = await aquery(lambda: Upstream.objects.defer("listed").filter(name=name).first())
        if row is None:
            _kept.pop(name, None)
            return None
        found = _kept[name] = read(row)
    return found


def read(row: Upstream) -> KnownUpstream:
    """Return the settings in a row."""
    return KnownUpstream(
        server_of(row),
        row.isolation,
        row.enabled,
        row.held,
        row.sampling,
        row.roots,
        row.user_connections,
        row.token_exchange,
        time.monotonic(),
    )


def server_of(row: Upstream) -> UpstreamServer:
    """Return the settings of requests in a row."""
    usual = (row.credential, row.era, row.timeout_seconds)
    if not row.command:
        return UpstreamServer(row.pk, row.name, row.url, *usual)
    command = conf.get().upstream_commands.get(row.command) or UpstreamCommand(row.command, ())
    return UpstreamServer(row.pk, row.name, command.url, *usual, row.command, command.start_seconds)


def lists_changed(name: str) -> None:
    """Report that a server changed one of its lists."""
    for callback in on_list_change:
        callback(name)


def drop(name: str) -> None:
    """Stop keeping a server, because it was changed in this process."""
    _kept.pop(name, None)
