"""Calls, failed and refused calls, and the last call of each tool in the last week, for the list of tools."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from django.db.models import Max, Q, Sum
from django.db.models.functions import Coalesce

from mcp_app.message_log.pages import ERRORS
from mcp_app.message_log.rollup_cells import MINUTE
from mcp_app.message_log.rollups import HOUR
from mcp_app.message_log.traffic import by_index, calls_of
from mcp_app.models import Message

WEEK: Final = timedelta(days=7)
# Calls within this time are known by the minute, and earlier calls by the hour.
BY_MINUTE: Final = timedelta(hours=2)


class Usage(NamedTuple):
    """The use of a tool. ``last`` is the start of the minute or hour of the last call."""

    calls: int
    failed: int
    refused: int
    last: datetime


def usage_of(tools: Collection[str], now: datetime) -> dict[str, Usage]:
    """Map the names of the tools that were called within the last week to their use, in one query."""
    hours, minutes = Q(span=HOUR, at__gt=now - WEEK), Q(span=MINUTE, at__gt=now - BY_MINUTE)
    rows = calls_of(hours | minutes).filter(tool__in=tools, at__lte=now).order_by().values_list("tool")
    numbers = {
        "calls": Coalesce(Sum("count", filter=hours), 0),
        "failed": Coalesce(Sum("count", filter=hours & Q(outcome__in=ERRORS)), 0),
        "refused": Coalesce(Sum("count", filter=hours & Q(outcome=Message.Outcome.REFUSED)), 0),
        "last": Max("at"),
    }
    with by_index():
        return {tool: Usage(*found) for tool, *found in rows.annotate(**numbers)}
