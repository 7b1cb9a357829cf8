"""Callers on pages: their names as links, other pages and recent use, and the button that revokes a key."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from mcp_app.admin.base import revoking
from mcp_app.admin.markup import in_utc
from mcp_app.auth.api_keys import key_states
from mcp_app.auth.principal_names import BETWEEN, CallerName, caller_names
from mcp_app.database import clock
from mcp_app.interface.links import (
    caller_pages,
    connections_page,
    figures_page,
    keys_page,
    messages_page,
    sessions_page,
)
from mcp_app.interface.text import visible
from mcp_app.message_log.pages import ANSWERED, ERRORS, FAILED
from mcp_app.message_log.rollups import DAY
from mcp_app.message_log.search.language import term_of
from mcp_app.models import ApiKey, CallerRollup, Session
from mcp_app.protocol.principal_key import caller_ids

DAYS: Final = 14
MOST_NAMED: Final = 5
# Maximum number of a credential's newest sessions that are read.
MOST_SESSIONS: Final = 200
NO_NAME: Final = "(no name)"
# The consequence of revoking a key, in the confirmation on every page that has the button.
CLIENTS_END: Final = "Clients that use it are disconnected at once."


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller on the page of a session, message or call.

    ``pages`` are titles and addresses of pages about the caller. ``revoking`` describes the button that
    revokes its API key, or is None if there is no active key or the user may not revoke it.
    """

    name: SafeString
    principal: str
    pages: list[tuple[str, str]]
    revoking: dict[str, str] | None = None

    def __str__(self) -> str:
        return self.name

    @property
    def is_named(self) -> bool:
        """True if the name is not the principal itself."""
        return self.name != visible(self.principal)


def caller_of(user: Any, principal: str) -> Caller:
    """Return the caller with this principal, for a page that ``user`` reads."""
    name = caller_names([principal])[principal]
    return Caller(
        linked_name(user, principal, name), principal, pages_of(user, principal), _revoking(user, principal)
    )


def pages_of(user: Any, principal: str) -> list[tuple[str, str]]:
    """Return titles and addresses of the lists that show what one principal did."""
    found = (
        ("Messages", messages_page(user, principal=principal)),
        ("Figures", figures_page(user, principal=principal)),
        ("Sessions", sessions_page(user, q=principal)),
    )
    return [(title, url) for title, url in found if principal and url]


def pages_of_user(user: Any, name: str) -> list[tuple[str, str]]:
    """Return titles and addresses of the lists of a user's traffic and credentials, by login name."""
    found = (
        ("Messages", messages_page(user, q=term_of("user", name))),
        ("Sessions", sessions_page(user, q=name)),
        ("API keys", keys_page(user, q=name)),
        ("OAuth connections", connections_page(user, q=name)),
    )
    return [(title, url) for title, url in found if url]


def linked_name(user: Any, principal: str, name: CallerName) -> SafeString:
    """Return the display name of a principal as HTML, with links to the pages that ``user`` may open."""
    if not name.is_known:
        return visible(name)
    pages = caller_pages(user, principal)
    owner = linked(name.user, pages.user)
    shown = format_html("{} as {}", visible(name.actor), owner) if name.actor else owner
    if name.credential:
        credential = linked(name.credential, pages.api_key or pages.client)
        shown = format_html("{}{}{}", shown, BETWEEN, credential)
    return format_html("{} (bench)", shown) if name.is_bench else shown


def linked(text: str, url: str | None) -> SafeString:
    """Return untrusted text as HTML, as a link if there is an address."""
    return format_html('<a class="mcp-link" href="{}">{}</a>', url, visible(text)) if url else visible(text)


def revoke_button() -> dict[str, str]:
    """Return the button that revokes an API key, with its confirmation."""
    return revoking("admin:mcp_app_apikey_revoke", "Revoke", "key", CLIENTS_END)


def _revoking(user: Any, principal: str) -> dict[str, str] | None:
    key = caller_ids(principal).api_key
    if not key or not user.has_perm("mcp_app.change_apikey"):
        return None
    if not ApiKey.objects.filter(key_states()["active"], pk=key).exists():
        return None
    return {**revoke_button(), "url": reverse("admin:mcp_app_apikey_revoke", args=[key])}


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
        Seen(name or NO_NAME, at, sessions_page(user, q=name) if name else None)
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
