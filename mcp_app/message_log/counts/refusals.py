"""Counts of refused calls by refusal code, read from the message log."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from django.db.models import Count

from mcp_app.message_log.pages import between
from mcp_app.models import Message
from mcp_app.protocol.refusals import ANSWERS, Code


class RefusalCount(NamedTuple):
    """The number of calls refused with one code. ``meaning`` explains the code to operators."""

    code: str
    meaning: str
    calls: int


def refusal_counts(since: datetime, until: datetime | None = None, tool: str = "") -> list[RefusalCount]:
    """Count the refused calls in a period by code, the most frequent code first.

    If ``tool`` is empty, the calls of all tools are counted.
    """
    # If the query lists all codes, the planner uses the index that contains only refused calls.
    found = between(Message.objects.filter(refusal__in=[code.value for code in Code]), since, until)
    if tool:
        found = found.filter(target=tool)
    counts = found.order_by().values_list("refusal").annotate(number=Count("pk"))
    ordered = sorted(counts, key=lambda each: (-each[1], each[0]))
    return [RefusalCount(code, ANSWERS[Code(code)].meaning, number) for code, number in ordered]
