"""The entries that a group or a user is offered, with the permission of each, for the pages of people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse

from mcp_app.catalogue.access import Holder, decisions, holders_in_words, permission_of
from mcp_app.interface.text import marked
from mcp_app.models.catalogue import ENTRY_KINDS

# Maximum number of entries of a kind that a page reads, and that it shows.
MOST_READ: Final = 1_000
MOST_SHOWN: Final = 50


class OfferedEntry(NamedTuple):
    """An offered entry that requires a permission. ``why`` is the reason for the decision."""

    kind: str
    name: str
    url: str
    permission: str
    why: str


class Offer(NamedTuple):
    """The offered entries that require a permission, and counts of all others by kind, such as "8 tools"."""

    restricted: list[OfferedEntry]
    not_shown: int
    open_to_all: list[str]


def offer_to(request: HttpRequest, holder: Holder) -> Offer:
    """Return the entries offered to a holder, of the kinds that the user of the request may view."""
    restricted: list[OfferedEntry] = []
    open_to_all: list[str] = []
    for kind in ENTRY_KINDS:
        if not admin.site.get_model_admin(kind).has_view_permission(request):
            continue
        found = [pair for pair in decisions(kind, holder, most=MOST_READ) if pair[1].can]
        own = [pair for pair in found if permission_of(pair[0])]
        restricted += _shown(kind, own)
        if number := len(found) - len(own):
            names: Any = kind._meta
            open_to_all.append(f"{number} {names.verbose_name if number == 1 else names.verbose_name_plural}")
    return Offer(restricted[:MOST_SHOWN], max(0, len(restricted) - MOST_SHOWN), open_to_all)


def _shown(kind: type[Any], found: list[Any]) -> Iterator[OfferedEntry]:
    words: dict[str, str] = {}
    for entry, decision in found:
        permission = permission_of(entry)
        if permission not in words:
            words[permission] = holders_in_words(permission)
        url = reverse(f"admin:mcp_app_{kind._meta.model_name}_change", args=[entry.pk])
        yield OfferedEntry(kind.KIND, marked(getattr(entry, kind.KEY)), url, words[permission], decision.why)
