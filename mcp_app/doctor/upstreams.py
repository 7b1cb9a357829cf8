"""Checks of upstream servers: the last request to each, the bridge to those over stdio, accounts of users."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from asgiref.sync import async_to_sync

from mcp_app import conf
from mcp_app.auth.own_addresses import names_provider
from mcp_app.doctor.finding import Finding, error, ok, warning
from mcp_app.doctor.installation import Installation
from mcp_app.interface.text import counted
from mcp_app.models import Upstream, UserConnection
from mcp_app.protocol.client.faults import UpstreamFault
from mcp_app.upstreams import bridge, health
from mcp_app.upstreams.accounts.use import is_readable

CHECK: Final = "upstreams.available"
BRIDGE: Final = "upstreams.bridge"
ACCOUNTS: Final = "upstreams.accounts"
MOST: Final = 100
REMEDY: Final = "Check the server, its URL and its credential, then read its lists again in the admin."


def available(_: Installation) -> Iterator[Finding]:
    """Report the servers whose last request failed. No request is sent."""
    rows = list(Upstream.objects.filter(enabled=True).values_list("pk", "name", "listed_at")[:MOST])
    failed = [(name, found) for pk, name, _ in rows if (found := health.of(pk)).is_failed]
    unread = sum(listed_at is None for _, _, listed_at in rows)
    for name, found in failed:
        yield warning(CHECK, f"the server {name} {found.text}", REMEDY)
    if rows and not failed:
        state = f"{unread:,} not read yet" if unread else "without failures"
        yield ok(CHECK, f"{counted(len(rows), 'upstream server')}, {state}")


def bridged(_: Installation) -> Iterator[Finding]:
    """Report whether the bridge runs, and the commands that do not start or are missing in the settings."""
    commands = conf.get().upstream_commands
    used = Upstream.objects.filter(enabled=True).exclude(command="").values_list("name", "command")
    missing = [(name, command) for name, command in used[:MOST] if command not in commands]
    for name, command in missing:
        text = f"the server {name} needs the command {command}, which UPSTREAM_COMMANDS does not have"
        yield warning(BRIDGE, text, "Add the command to the settings, or remove the server.")
    if not commands:
        return
    try:
        found = async_to_sync(bridge.status)()
    except UpstreamFault as fault:
        yield error(BRIDGE, f"servers over stdio {fault}", "`manage.py up` starts it, too.")
        return
    for name in sorted({*commands} - {*found}):
        yield warning(BRIDGE, f"the bridge does not know the command {name}", "Restart it.")
    failing = [name for name, state in found.items() if state["failures"] > 1]
    for name in failing:
        text = f"the process of the command {name} ended at once {found[name]['failures']} times in a row"
        yield warning(BRIDGE, text, "`manage.py mcp_upstream logs` prints its error output.")
    if not failing and not missing:
        yield ok(BRIDGE, f"the bridge serves {counted(len(found), 'command')}")


def with_accounts(_: Installation) -> Iterator[Finding]:
    """Report token exchanges without logins, and the newest connections whose tokens cannot be decrypted."""
    exchanging = (
        Upstream.objects.filter(enabled=True).exclude(token_exchange="").values_list("name", flat=True)
    )
    names = [] if names_provider() else list(exchanging[:MOST])
    for name in names:
        text = f"the server {name} exchanges tokens of an identity provider, but no caller has one"
        yield warning(ACCOUNTS, text, "Set MCP_AUTH=external, or use user connections.")
    stored = UserConnection.objects.exclude(sealed="").select_related("client").order_by("-connected_at")
    rows = list(stored[:MOST])
    lost = sum(not is_readable(row) for row in rows)
    if lost:
        text = f"the tokens of {lost} of {counted(len(rows), 'user connection')} cannot be decrypted"
        remedy = "Put the previous key behind the new one in STATE_KEYS, or let the users connect again."
        yield error(ACCOUNTS, text, remedy)
    elif rows and not names:
        yield ok(ACCOUNTS, f"the tokens of {counted(len(rows), 'user connection')} can be read")


CHECKS = (available, bridged, with_accounts)
