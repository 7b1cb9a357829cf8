"""Data of the processes of a server over stdio, as the bridge reports them."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from typing import Any, Final

from asgiref.sync import async_to_sync

from mcp_app import conf
from mcp_app.admin.markup import badge, relative
from mcp_app.interface.text import marked
from mcp_app.models import Upstream
from mcp_app.protocol.client.faults import UpstreamFault
from mcp_app.upstreams import bridge

NOT_IN_SETTINGS: Final = "UPSTREAM_COMMANDS in the settings no longer has this command."
_OTHER_BRIDGE: Final = "The bridge does not know this command. Restart it to read the settings again."
_TONES: Final = {"running": "good", "stopped": "plain", "failing": "bad", "unknown": "warn"}


def context_of(row: Upstream) -> dict[str, Any] | None:
    """Return the processes of a server, or None for a server with a URL."""
    if not row.command:
        return None
    command = conf.get().upstream_commands.get(row.command)
    found: dict[str, Any] = {"command": shlex.join(command.command) if command else "", "problem": ""}
    state: dict[str, Any] = {}
    if command is None:
        found["problem"] = NOT_IN_SETTINGS
    else:
        try:
            state = async_to_sync(bridge.status)().get(row.command) or {}
            found["problem"] = "" if state else _OTHER_BRIDGE
        except UpstreamFault as fault:
            found["problem"] = f"Its processes {fault}"
    return {**found, **_shown(state)}


def _shown(state: dict[str, Any]) -> dict[str, Any]:
    processes, end = state.get("processes", []), state.get("last_end")
    name = "unknown"
    if state:
        name = "running" if processes else "failing" if state["failures"] > 1 else "stopped"
    return {
        "state": name,
        "badge": badge(name, _TONES[name]),
        "number": len(processes),
        "memory_mb": sum(each["memory_mb"] for each in processes),
        "failures": state.get("failures", 0),
        "last_end": end and {"at": relative(datetime.fromtimestamp(end["at"], UTC), ""), "text": end["text"]},
        "errors": "\n".join(_line(each) for each in state.get("errors", [])),
    }


def _line(found: dict[str, Any]) -> str:
    at = datetime.fromtimestamp(found["at"], UTC)
    return f"{at:%H:%M:%S}  {found['pid']}  {marked(found['text'])}"
