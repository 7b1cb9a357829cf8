"""The limits of a tool, which its code states and an administrator may change: their one list.

Definitions, entries, history, forms, API and the gate take their fields from ``ToolLimits``. A further limit
is a field and a keyword here, a column of ``Tool``, and a check of the gate (``execution.admission.checks``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Any, Final, TypedDict

MAX_RETRIES: Final = 10
MAX_PRIORITY: Final = 9
APPROVAL_MINUTES: Final = 60
# A session, and with it the way back for the answer, lives no longer than a day.
MAX_APPROVAL_MINUTES: Final = 24 * 60
QUEUE_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")


class LimitKeywords(TypedDict, total=False):
    """The limits as options, for the type checker; ``background`` is none of an exposed Celery task."""

    timeout: float | None
    calls_per_minute: int | None
    retries: int
    queue: str
    priority: int
    max_running: int | None
    needs_approval: bool
    approval_minutes: int | None
    four_eyes: bool


# No slots of its own: Python allows slots in only one base of a class that has several.
@dataclass(frozen=True, kw_only=True)
class ToolLimits:
    """``timeout`` is in seconds, ``calls_per_minute`` counts per caller; None is no limit, or the usual one.

    A tool that ``needs_approval`` is a background one: what waits for a person must survive any process.
    """

    __slots__ = ()

    timeout: float | None = None
    calls_per_minute: int | None = None
    background: bool = False
    retries: int = 0
    queue: str = ""
    priority: int = 0
    max_running: int | None = None
    needs_approval: bool = False
    approval_minutes: int | None = None
    four_eyes: bool = False

    def limits(self) -> dict[str, Any]:
        """The limits alone, by name."""
        return {name: getattr(self, name) for name in COLUMNS}


class _Unlimited(ToolLimits):
    """A tool with no limit."""


NO_LIMITS: Final = _Unlimited()
# By the name of each limit the column that has it in a row.
COLUMNS: Final = {
    limit.name: {"timeout": "timeout_seconds"}.get(limit.name, limit.name) for limit in fields(ToolLimits)
}
# Whole numbers of which None is no limit, and the least is 1.
POSITIVE: Final = ("calls_per_minute", "max_running")
# If code or an administrator switches one of these on, the other cannot switch it off.
SWITCHES: Final = tuple(limit.name for limit in fields(ToolLimits) if limit.default is False)
