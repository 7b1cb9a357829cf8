"""The page that compares lists: their tokens for each family of models, and the tools that were called."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from django.contrib.auth.models import Group
from django.http import HttpRequest

from mcp_app.admin.callers.tokens import TokenTable, called_tools, rows_of
from mcp_app.auth.principal import EVERYTHING
from mcp_app.catalogue.access import holder_of_group, may_ask
from mcp_app.catalogue.snapshots.toolsets import path_of
from mcp_app.catalogue.toolsets.meter import ListCost, Meter
from mcp_app.interface.text import marked
from mcp_app.models import Toolset
from mcp_app.protocol.messages.server import ENDPOINT

MOST_GROUPS: Final = 50


def tables(request: HttpRequest) -> list[tuple[str, str, TokenTable]]:
    """Return tables with their titles and first headings: of all addresses, and of groups."""
    meter = Meter(called_tools(request)[0])
    named = ((cost.path, cost) for cost in meter.lists(EVERYTHING))
    found = [("Addresses", "Address", TokenTable(rows_of(request, named)))]
    if may_ask(request.user) and request.user.has_perm("auth.view_group"):
        found.append(("Groups", "Group", TokenTable(rows_of(request, _of_groups(meter)))))
    return [each for each in found if each[2].rows]


def _of_groups(meter: Meter) -> Iterator[tuple[str, ListCost]]:
    """Yield the lists of the members of each group, at /mcp and in the toolsets of groups."""
    limited: Any = Toolset.objects.filter(audience=Toolset.Audience.GROUPS, enabled=True)
    paths = [ENDPOINT, *(path_of(slug) for slug in limited.values_list("slug", flat=True))]
    for group in Group.objects.order_by("name")[:MOST_GROUPS]:
        for cost in meter.lists(holder_of_group(group).permissions, paths=paths):
            yield f"{marked(group.name)}: {cost.path}", cost
