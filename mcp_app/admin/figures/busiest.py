"""The busiest clients of a period, and the caller that suddenly makes most of the calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import Count
from django.utils import timezone

from mcp_app import conf
from mcp_app.admin.figures.asked import CLIENT, PRINCIPAL
from mcp_app.admin.figures.period import query_of
from mcp_app.admin.markup import rounded_share, share_text
from mcp_app.admin.verdict import Reason
from mcp_app.auth.api_keys import key_states
from mcp_app.auth.principal_names import principal_names
from mcp_app.database import clock
from mcp_app.interface.links import caller_pages, figures_page, sessions_page
from mcp_app.interface.text import UNNAMED_CLIENT, marked
from mcp_app.message_log.counts.figures import named
from mcp_app.message_log.counts.spikes import USER, Spike, find_spike
from mcp_app.message_log.traffic import Period
from mcp_app.models import ApiKey, Session
from mcp_app.protocol.messages.methods import OTHER
from mcp_app.protocol.principal_key import caller_ids

MOST_CLIENTS: Final = 8
# From this ratio on, a change is a factor instead of a percentage.
FACTOR: Final = 2.0


@dataclass(frozen=True, slots=True)
class ClientRow:
    """The calls of a client in a period, and its live sessions.

    ``url`` leads to its users, or for clients without a name to all users. ``trend`` is the change since the
    period before. Numbers that the user may not view are "".
    """

    name: str
    url: str
    calls: str = ""
    share: str = ""
    trend: str = ""
    sessions: str = ""
    sessions_url: str = ""


def busiest_clients(user: Any, period: Period, now: datetime) -> list[ClientRow]:
    """Return the clients with the most calls in a period, then those with the most live sessions."""
    sessions = _live_sessions() if user.has_perm("mcp_app.view_session") else None
    rows: list[ClientRow] = []
    if user.has_perm("mcp_app.view_message"):
        rows = [_with_sessions(user, row, sessions) for row in _by_calls(user, period, now)]
    known = {row.name for row in rows}
    idle = [
        ClientRow(name, _figures(user, period, name), "0" if rows else "")
        for name in sessions or {}
        if name not in known
    ]
    return [*rows, *(_with_sessions(user, row, sessions) for row in idle)][:MOST_CLIENTS]


def _figures(user: Any, period: Period, client: str) -> str:
    """Return the address of the users of a client, or of all users for clients without a name."""
    limit = {"client": client} if client else {}
    return figures_page(user, **query_of(period), by=PRINCIPAL, **limit) or ""


def _by_calls(user: Any, period: Period, now: datetime) -> list[ClientRow]:
    found = {name: calls.all for name, calls in named(CLIENT, period, now).calls}
    before = replace(period, until=period.starts(now)[0])
    earlier = {name: calls.all for name, calls in named(CLIENT, before, now).calls}
    total = sum(found.values())
    return [
        ClientRow(
            name,
            _figures(user, period, name),
            f"{calls:,}",
            share_text(rounded_share(calls / total, 3)),
            trend(calls, earlier.get(name, 0)),
        )
        for name, calls in [*found.items()][:MOST_CLIENTS]
        if name != OTHER
    ]


def trend(calls: int, before: int) -> str:
    """Return the change of a number as text such as ``+12 %``, ``4.5 ×`` or ``new``."""
    if not before:
        return "new"
    if calls >= before * FACTOR:
        factor = calls / before
        return f"{factor:,.0f} ×" if factor >= 10 else f"{factor:.1f} ×".replace(".0", "")
    change = round((calls / before - 1) * 100)
    return f"{change:+d} %".replace("-", "\N{MINUS SIGN}") if change else "±0 %"


def _live_sessions() -> dict[str, int]:
    """Return the number of live sessions by client, the largest number first."""
    since = clock.utcnow() - timedelta(seconds=conf.get().session_idle_seconds)
    live = Session.objects.filter(ended_at=None, last_seen_at__gte=since).order_by()
    counted = live.values_list("client_name").annotate(number=Count("pk"))
    return dict(counted.order_by("-number", "client_name"))


def _with_sessions(user: Any, row: ClientRow, sessions: Mapping[str, int] | None) -> ClientRow:
    number = (sessions or {}).get(row.name, 0)
    url = sessions_page(user, state="open", q=row.name) if row.name and number else ""
    shown = "" if sessions is None else f"{number:,}"
    return replace(row, name=row.name or UNNAMED_CLIENT, sessions=shown, sessions_url=url or "")


def spike_reason(user: Any, now: datetime) -> Reason | None:
    """Return the task for a caller that suddenly makes most of the calls, or None.

    A caller whose API key is no longer active needs no task. The task leads to the page of the API key or of
    the OAuth client, where the caller can be stopped.
    """
    spike = find_spike(now)
    if spike is None or _has_ended_key(spike):
        return None
    since = timezone.localtime(spike.since)
    day = "" if since.date() == timezone.localtime(now).date() else f"{since:%Y-%m-%d} "
    share = share_text(rounded_share(spike.share, 2))
    text = f"{_name(spike)} has made {share} of calls since {day}{since:%H:%M}"
    return Reason(text, _page(user, spike) or "")


def _has_ended_key(spike: Spike) -> bool:
    key = caller_ids(spike.names.get(PRINCIPAL, "")).api_key
    return bool(key) and not ApiKey.objects.filter(key_states()["active"], pk=key).exists()


def _name(spike: Spike) -> str:
    principal = spike.names.get(PRINCIPAL) or spike.names.get(USER, "")
    caller = principal_names([principal])[principal] if principal else ""
    client = spike.names.get(CLIENT, "")
    return marked(f"{client} ({caller})" if client and caller else client or caller)


def _page(user: Any, spike: Spike) -> str | None:
    principal = spike.names.get(PRINCIPAL) or spike.names.get(USER, "")
    if principal:
        pages = caller_pages(user, principal)
        if found := pages.api_key or pages.client or pages.user:
            return found
    limit = {PRINCIPAL: principal} if PRINCIPAL in spike.names else {CLIENT: spike.names.get(CLIENT, "")}
    return figures_page(user, by=PRINCIPAL if CLIENT in limit else CLIENT, **limit)
