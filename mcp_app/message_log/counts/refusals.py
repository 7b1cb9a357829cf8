"""Counts of refused calls by the code of their refusal, from the message log."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from django.db.models import Count

from mcp_app.message_log.pages import between
from mcp_app.models import Message
from mcp_app.protocol.refusals import ANSWERS, Code


class RefusalCount(NamedTuple):
    """The refusals of one code. ``meaning`` is for operators."""

    code: str
    meaning: str
    calls: int


def refusal_counts(since: datetime, until: datetime | None = None, tool: str = "") -> list[RefusalCount]:
    """Return the refusals of a period, of one tool or all, the most frequent code first."""
    # With all codes listed, the planner uses the index that contains only refusals.
    found = between(Message.objects.filter(refusal__in=[code.value for code in Code]), since, until)
    if tool:
        found = found.filter(target=tool)
    counts = found.order_by().values_list("refusal").annotate(number=Count("pk"))
    ordered = sorted(counts, key=lambda each: (-each[1], each[0]))
    return [RefusalCount(code, ANSWERS[Code(code)].meaning, number) for code, number in ordered]
