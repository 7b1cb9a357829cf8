"""Tables of lists: their tools, their tokens for each family of models, and the tools that were called."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from django.http import HttpRequest
from django.urls import reverse

from mcp_app.catalogue.access import Holder, may_ask
from mcp_app.catalogue.toolsets.contents import UNUSED_DAYS, called_lately
from mcp_app.catalogue.toolsets.meter import FAMILIES, ListCost, Meter
from mcp_app.database import clock
from mcp_app.limits.matching import toolset_of
from mcp_app.message_log.counts.limited_figures import principals_of, tools_called
from mcp_app.models import Toolset
from mcp_app.protocol.messages.server import ENDPOINT

VIEW: Final = "mcp_app.view_toolset"
CHANGE: Final = (VIEW, "mcp_app.change_toolset")
MESSAGES: Final = "mcp_app.view_message"


@dataclass(frozen=True, slots=True)
class ListRow:
    """A row of a table of lists. ``leave_out`` is the address of the form that leaves out unused tools."""

    name: str
    url: str
    cost: ListCost
    leave_out: str


@dataclass(frozen=True, slots=True)
class TokenTable:
    """A table of lists. ``is_own``: only calls of one caller count, ``whole`` if all of them."""

    rows: list[ListRow]
    is_own: bool = False
    whole: bool = True
    families: tuple[str, ...] = tuple(FAMILIES)
    days: int = UNUSED_DAYS


def of_holder(
    request: HttpRequest, holder: Holder, *, principal: str = "", paths: Iterable[str] = ()
) -> TokenTable | None:
    """Return the lists of a holder, or None if it has none or the user may not see the access of others.

    Calls of ``principal`` are counted, or else those of all callers. The principal of a user without a
    credential includes the user's credentials.
    """
    if holder.refused or not may_ask(request.user):
        return None
    called, whole = called_tools(request, principal)
    costs = Meter(called).lists(holder.permissions, holder.scopes, paths)
    rows = rows_of(request, ((cost.path, cost) for cost in costs))
    return TokenTable(rows, bool(principal), whole) if rows else None


def called_tools(request: HttpRequest, principal: str = "") -> tuple[set[str] | None, bool]:
    """Return the tools called lately, or None if the user may not view messages.

    The second item is True if all calls of the time are known.
    """
    if not request.user.has_perm(MESSAGES):
        return None, True
    if not principal:
        return called_lately(), True
    since = clock.utcnow() - timedelta(days=UNUSED_DAYS)
    return tools_called([principal] if "/" in principal else principals_of(principal, since), since)


def rows_of(request: HttpRequest, costs: Iterable[tuple[str, ListCost]]) -> list[ListRow]:
    """Return a row for each name and list. Toolsets are left out for users who may not view them."""
    if not request.user.has_perm(VIEW):
        return [ListRow(name, "", cost, "") for name, cost in costs if cost.path == ENDPOINT]
    keys = dict(Toolset.objects.values_list("slug", "pk"))
    may_change = request.user.has_perms(CHANGE)
    rows = []
    for name, cost in costs:
        key = keys.get(toolset_of(cost.path))
        url = reverse("admin:mcp_app_toolset_change", args=[key]) if key else ""
        form = reverse("admin:mcp_app_toolset_edit", args=[key]) if key and may_change and cost.unused else ""
        rows.append(ListRow(name, url, cost, f"{form}?without=unused#entries" if form else ""))
    return rows
