"""The list of a server's tools: reading it, and drafts of the changes since an administrator's approval."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from asgiref.sync import async_to_sync
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q

from mcp_app.catalogue.changes import drafts, revisions
from mcp_app.catalogue.sources.upstream import known
from mcp_app.catalogue.sources.upstream.definitions import breaks, is_usable, pin
from mcp_app.catalogue.upstreams.storing import about, packed, unpacked
from mcp_app.catalogue.upstreams.tools import changed_columns, changes_of, tools_of
from mcp_app.database import clock
from mcp_app.models import Draft, Tool, Upstream, audit
from mcp_app.protocol.client.faults import UpstreamFault
from mcp_app.upstreams import client

# A little less than the hour between two runs, so that each run reads every server.
REFRESH_AFTER: Final = timedelta(minutes=55)
GONE: Final = "no longer has this tool."
BREAKING: Final = (
    "has changed the arguments of this tool. An administrator has to publish or refuse the change first."
)
_NOTE: Final = "Changed by the server {}"

log = logging.getLogger("mcp.upstream")


@dataclass(slots=True)
class Refreshed:
    """The outcome of reading a list: numbers of tools, drafts of changes, and reasons by tool."""

    tools: int = 0
    drafts: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)


def refresh(*, upstream: Upstream, actor: Any) -> Refreshed:
    """Read the tools of a server, and save a draft of each change. Raise UpstreamFault.

    Clients see nothing until the drafts are published. Calls of a tool whose arguments changed are refused
    until then.
    """
    found = async_to_sync(client.listing)(known.server_of(upstream))
    items = {item["name"]: dict(item) for item in found.tools if is_usable(item)}
    outcome = Refreshed(tools=len(items))
    server = found.peer
    info = server.info
    with transaction.atomic():
        revisions.lock()
        row = Upstream.objects.select_for_update().get(pk=upstream.pk)
        listed = packed({"tools": list(items.values()), "instructions": server.instructions})
        has_news = row.listed is None or bytes(row.listed) != listed
        row.listed = listed
        row.listed_at, row.version = clock.utcnow(), server.version
        # No database stores a NUL character.
        row.title = str(info.get("title") or info.get("name") or "").replace("\0", "")[:200]
        row.held = _compared(row, items, outcome, actor)
        row.save(update_fields=["listed", "listed_at", "version", "title", "held", "updated_at"])
        if actor is not None or has_news:
            detail = {"tools": len(items), "drafts": len(outcome.drafts), "gone": len(outcome.gone)}
            audit(actor=actor, action="upstream.refreshed", **about(row), detail=detail)
    known.drop(upstream.name)
    return outcome


def refresh_due() -> dict[str, str]:
    """Read the tools of all servers that are due. Return the reasons of those that failed, by name."""
    failed: dict[str, str] = {}
    due = clock.utcnow() - REFRESH_AFTER
    rows = Upstream.objects.defer("listed").filter(enabled=True)
    for row in rows.filter(Q(listed_at=None) | Q(listed_at__lt=due)):
        try:
            refresh(upstream=row, actor=None)
        except UpstreamFault as fault:
            failed[row.name] = str(fault)
            log.warning("The tools of the upstream server %s were not read: it %s", row.name, fault)
        except Upstream.DoesNotExist:
            continue  # It was deleted meanwhile.
    return failed


def listed_tools(row: Upstream) -> dict[str, dict[str, Any]]:
    """Return the definitions of a server's tools as it listed them last, by name."""
    return {item["name"]: item for item in unpacked(row.listed).get("tools", [])}


def instructions_of(row: Upstream) -> str:
    """Return the instructions of a server. They are shown to administrators and never to clients."""
    return str(unpacked(row.listed).get("instructions", ""))


def _compared(
    row: Upstream, items: Mapping[str, dict[str, Any]], outcome: Refreshed, actor: Any
) -> dict[str, list[str]]:
    """Save drafts of the changes. Return the tools whose calls are refused, with digest and reason."""
    held: dict[str, list[str]] = {}
    pending = changes_of(row)
    for name, tool in tools_of(row).items():
        item = items.get(name)
        if item is None:
            held[name] = ["", GONE]
            outcome.gone.append(tool.name)
            continue
        newest = pin(item)
        if newest == (tool.request or {}).get("definition"):
            continue
        if breaks(tool.input_schema, item["inputSchema"]):
            held[name] = [newest, BREAKING]
        _draft(row, tool, item, pending.get(tool.pk), outcome, actor)
    return held


def _draft(
    row: Upstream,
    tool: Tool,
    item: Mapping[str, Any],
    pending: Draft | None,
    outcome: Refreshed,
    actor: Any,
) -> None:
    """Save the draft of a change. A draft of an earlier change of the server is replaced, no other."""
    values = changed_columns(row, tool, item)
    if pending is not None:
        request = pending.values.get("request")
        drafted = request.get("definition") if isinstance(request, dict) else None
        if drafted == values["request"]["definition"]:
            outcome.drafts.append(tool.name)
            return
        if drafted is None:
            outcome.skipped[tool.name] = "It has a draft already: publish or discard it first."
            return
    try:
        note = _NOTE.format(row.name)
        drafts.save_draft(kind=Tool, entry=tool, draft=pending, actor=actor, note=note, **values)
        outcome.drafts.append(tool.name)
    except ValidationError as error:
        outcome.skipped[tool.name] = " ".join(error.messages)
