"""The recent use of a credential: addresses, clients and calls per day."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from mcp_app.admin.markup import in_utc
from mcp_app.database import clock
from mcp_app.interface.links import messages_page, sessions_page
from mcp_app.interface.text import UNNAMED_CLIENT
from mcp_app.message_log.pages import ANSWERED, ERRORS, FAILED
from mcp_app.message_log.rollups import DAY
from mcp_app.models import CallerRollup, Session

DAYS: Final = 14
MOST_NAMED: Final = 5
# Maximum number of a credential's newest sessions that are read.
MOST_SESSIONS: Final = 200


@dataclass(frozen=True, slots=True)
class Seen:
    """A client name or an address, with the last time it was seen, and the address of its sessions."""

    name: str
    at: datetime
    url: str | None


@dataclass(slots=True)
class DayOfCalls:
    """The calls of a day in UTC, with the addresses of their messages."""

    at: datetime
    calls: int = 0
    failed: int = 0
    urls: dict[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CallerUse:
    """The recent use of a credential. Parts that the reader may not view are None."""

    addresses: list[Seen] | None
    clients: list[Seen] | None
    days: list[DayOfCalls] | None


def use_of(user: Any, principal: str) -> CallerUse:
    """Return the recent use of the credential with this principal, for a page that ``user`` reads."""
    addresses = clients = None
    if user.has_perm("mcp_app.view_session"):
        addresses, clients = _seen(user, principal)
    days = _days(user, principal) if user.has_perm("mcp_app.view_message") else None
    return CallerUse(addresses, clients, days)


def _seen(user: Any, principal: str) -> tuple[list[Seen], list[Seen]]:
    rows = Session.objects.filter(principal=principal).order_by("-last_seen_at")
    addresses: dict[str, datetime] = {}
    clients: dict[str, datetime] = {}
    for address, client, at in rows.values_list("address", "client_name", "last_seen_at")[:MOST_SESSIONS]:
        if address:
            addresses.setdefault(address, at)
        clients.setdefault(client, at)
    return _newest(user, addresses), _newest(user, clients)


def _newest(user: Any, found: dict[str, datetime]) -> list[Seen]:
    return [
        Seen(name or UNNAMED_CLIENT, at, sessions_page(user, q=name) if name else None)
        for name, at in [*found.items()][:MOST_NAMED]
    ]


def _days(user: Any, principal: str) -> list[DayOfCalls]:
    """Return the days with calls in the last DAYS, the newest first."""
    cells = CallerRollup.objects.filter(
        span=DAY,
        kind=CallerRollup.Kind.PRINCIPAL,
        name=principal,
        at__gte=clock.utcnow() - timedelta(days=DAYS),
    )
    found: dict[datetime, dict[str, int]] = defaultdict(dict)
    for at, outcome, count in cells.order_by("-at").values_list("at", "outcome", "count"):
        found[at][outcome] = count
    return [_day(user, principal, at, counts) for at, counts in found.items()]


def _day(user: Any, principal: str, at: datetime, counts: dict[str, int]) -> DayOfCalls:
    asked = {"method": "tools/call", "principal": principal, "since": in_utc(at)}
    asked["until"] = in_utc(at + timedelta(seconds=DAY - 1))
    return DayOfCalls(
        at,
        sum(counts.values()),
        sum(counts.get(outcome, 0) for outcome in ERRORS),
        {name: messages_page(user, **asked, outcome=name) for name in (ANSWERED, FAILED)},
    )
