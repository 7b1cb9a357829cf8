"""The lists of a server: reading them, and drafts of the changes since an administrator's approval."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final

from asgiref.sync import async_to_sync
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q

from mcp_app.catalogue.changes import drafts, revisions
from mcp_app.catalogue.sources.upstream import known
from mcp_app.catalogue.sources.upstream.definitions import breaks_entry, pin
from mcp_app.catalogue.sources.upstream.kinds import KINDS, Item, ItemKind, kind_of
from mcp_app.catalogue.sources.upstream.session_keys import capabilities
from mcp_app.catalogue.upstreams.entries import changed_columns, changes_of, entries_of, may
from mcp_app.catalogue.upstreams.storing import about, packed, unpacked
from mcp_app.database import clock
from mcp_app.models import Draft, Upstream, audit
from mcp_app.protocol.capabilities import ClientCapabilities
from mcp_app.protocol.client.faults import Kind, UpstreamFault
from mcp_app.upstreams import client
from mcp_app.upstreams.accounts import use
from mcp_app.upstreams.server import UpstreamServer

# A little less than the hour between two runs, so that each run reads every server.
REFRESH_AFTER: Final = timedelta(minutes=55)
GONE: Final = "no longer has this {}."
BREAKING: Final = (
    "has changed the arguments of this {}. An administrator has to publish or refuse the change first."
)
# Servers that are read only by a user with an account.
NEEDS_ACCOUNT: Final = Q(user_connections=True, credential="")
_NO_ACCOUNT: Final = "needs a connection to your account before its lists can be read."
_ALL: Final = ClientCapabilities(
    roots=True, sampling=True, sampling_tools=True, sampling_context=True,
    elicitation_form=True, elicitation_url=True,
)  # fmt: skip
_LISTS: Final = [(kind.capability, kind.method, kind.member) for kind in KINDS]
_NOTE: Final = "Changed by the server {}"

log = logging.getLogger("mcp.upstream")


@dataclass(slots=True)
class Refreshed:
    """The outcome of reading the lists: numbers of items by list, drafts of changes, and reasons by name."""

    items: dict[str, int] = field(default_factory=dict)
    drafts: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    def number(self, kind: ItemKind) -> int:
        """Return the number of usable items of a kind."""
        return self.items.get(kind.member, 0)

    def counted(self) -> str:
        """Return the numbers of items as text."""
        shown = {kind.noun: self.number(kind) for kind in KINDS}
        parts = [f"{n} {noun}{'s' * (n != 1)}" for noun, n in shown.items() if n or noun == "tool"]
        return ", ".join(parts)


def refresh(*, upstream: Upstream, actor: Any) -> Refreshed:
    """Read what a server offers, and save a draft of each change. Raise UpstreamFault.

    Clients see nothing until the drafts are published. Calls of a tool or prompt whose arguments changed are
    refused until then. A server with user connections and no credential is read with the actor's account.
    """
    told = capabilities(known.read(upstream), _ALL)
    found = async_to_sync(client.listing)(_server_for(upstream, actor), _LISTS, told)
    listed_now = {member: _usable(member, items) for member, items in found.items.items()}
    items = _items(listed_now)
    outcome = Refreshed({kind.member: len(listed_now.get(kind.member, ())) for kind in KINDS})
    server = found.peer
    info = server.info
    with transaction.atomic():
        revisions.lock()
        row = Upstream.objects.select_for_update().get(pk=upstream.pk)
        listed = packed({**listed_now, "instructions": server.instructions})
        has_news = row.listed is None or bytes(row.listed) != listed
        row.listed = listed
        row.listed_at, row.version = clock.utcnow(), server.version
        # No database stores a NUL character.
        row.title = str(info.get("title") or info.get("name") or "").replace("\0", "")[:200]
        row.held = _compared(row, items, outcome, actor)
        row.save(update_fields=["listed", "listed_at", "version", "title", "held", "updated_at"])
        if actor is not None or has_news:
            detail = {**outcome.items, "drafts": len(outcome.drafts), "gone": len(outcome.gone)}
            audit(actor=actor, action="upstream.refreshed", **about(row), detail=detail)
    known.drop(upstream.name)
    return outcome


def refresh_due() -> dict[str, str]:
    """Read the lists of all servers that are due. Return the reasons of those that failed, by name."""
    failed: dict[str, str] = {}
    due = clock.utcnow() - REFRESH_AFTER
    rows = Upstream.objects.defer("listed").filter(enabled=True).exclude(NEEDS_ACCOUNT)
    for row in rows.filter(Q(listed_at=None) | Q(listed_at__lt=due)):
        try:
            refresh(upstream=row, actor=None)
        except UpstreamFault as fault:
            failed[row.name] = str(fault)
            log.warning("The lists of the upstream server %s were not read: it %s", row.name, fault)
        except Upstream.DoesNotExist:
            continue  # It was deleted meanwhile.
    return failed


def _server_for(upstream: Upstream, actor: Any) -> UpstreamServer:
    server = known.server_of(upstream)
    if not upstream.user_connections or upstream.credential:
        return server
    user = getattr(actor, "pk", None)
    account = None if user is None else async_to_sync(use.find)(upstream.pk, user)[1]
    if account is None:
        raise UpstreamFault(Kind.LOGIN, _NO_ACCOUNT, sent=False)
    return replace(server, account=account)


def listed_items(row: Upstream) -> dict[str, Item]:
    """Return what a server listed last, by key."""
    return _items(unpacked(row.listed))


def instructions_of(row: Upstream) -> str:
    """Return the instructions of a server. They are shown to administrators and never to clients."""
    return str(unpacked(row.listed).get("instructions", ""))


def _usable(member: str, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the usable items of a list. Of two with the same key, the last counts."""
    kind = next(kind for kind in KINDS if kind.member == member)
    return list({item[kind.key]: item for item in items if kind.is_usable(item)}.values())


def _items(listed: Mapping[str, Any]) -> dict[str, Item]:
    found = (Item(kind, item) for kind in KINDS for item in listed.get(kind.member, ()))
    return {item.key: item for item in found}


def _compared(
    row: Upstream, items: Mapping[str, Item], outcome: Refreshed, actor: Any
) -> dict[str, list[str]]:
    """Save drafts of the changes. Return the entries that are refused, with digest and reason."""
    held: dict[str, list[str]] = {}
    pending = changes_of(row)
    for key, entry in entries_of(row).items():
        item, noun = items.get(key), kind_of(type(entry)).noun
        if item is None:
            held[key] = ["", GONE.format(noun)]
            outcome.gone.append(getattr(entry, entry.KEY))
            continue
        newest = pin(item)
        if newest == (entry.request or {}).get("definition"):
            continue
        if breaks_entry(entry, item):
            held[key] = [newest, BREAKING.format(noun)]
        _draft(row, entry, item, pending.get(key), outcome, actor)
    return held


def _draft(
    row: Upstream, entry: Any, item: Item, pending: Draft | None, outcome: Refreshed, actor: Any
) -> None:
    """Save the draft of a change. A draft of an earlier change of the server is replaced, no other."""
    values, name = changed_columns(row, entry, item), str(getattr(entry, entry.KEY))
    if not may(actor, "change", type(entry)):
        outcome.skipped[name] = f"You may not change a {item.kind.noun}."
        return
    if pending is not None:
        request = pending.values.get("request")
        drafted = request.get("definition") if isinstance(request, dict) else None
        if drafted == values["request"]["definition"]:
            outcome.drafts.append(name)
            return
        if drafted is None:
            outcome.skipped[name] = "It has a draft already: publish or discard it first."
            return
    try:
        note = _NOTE.format(row.name)
        drafts.save_draft(kind=type(entry), entry=entry, draft=pending, actor=actor, note=note, **values)
        outcome.drafts.append(name)
    except ValidationError as error:
        outcome.skipped[name] = " ".join(error.messages)
