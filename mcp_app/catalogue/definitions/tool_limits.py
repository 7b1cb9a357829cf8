"""The only list of a tool's limits, which code sets and administrators can change.

Definitions, entries, history, forms, API and the gate take their fields from ``ToolLimits``. A new limit
needs a field and a keyword here, a column of ``Tool``, and a check of the gate
(``execution.admission.checks``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Any, Final, TypedDict

MAX_RETRIES: Final = 10
MAX_PRIORITY: Final = 9
APPROVAL_MINUTES: Final = 60
# The answer goes to the caller's session, and a session lives at most one day.
MAX_APPROVAL_MINUTES: Final = 24 * 60
# A model reads about one token in four bytes of text or JSON.
BYTES_PER_TOKEN: Final = 4
# A smaller bound would hardly leave room for the sentence about the rest.
MIN_RESULT_TOKENS: Final = 250
MAX_RESULT: Final = 1_000_000_000
MIN_RESULT_BYTES: Final = MIN_RESULT_TOKENS * BYTES_PER_TOKEN
QUEUE_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")


class LimitKeywords(TypedDict, total=False):
    """The limits as decorator options, for the type checker.

    ``background`` is missing because exposed Celery tasks do not take it.
    """

    timeout: float | None
    calls_per_minute: int | None
    retries: int
    queue: str
    priority: int
    max_running: int | None
    needs_approval: bool
    approval_minutes: int | None
    four_eyes: bool
    max_result_tokens: int | None
    max_result_bytes: int | None
    cost: int | None


# The slots are empty because Python allows non-empty slots in only one of several base classes.
@dataclass(frozen=True, kw_only=True)
class ToolLimits:
    """The limits of a tool. None means no limit or the default.

    ``timeout`` is in seconds, ``calls_per_minute`` counts per caller. A tool that ``needs_approval`` runs in
    the background: a call that waits for a person must survive restarts. ``cost`` is what a call spends of a
    budget in cost units (``mcp_app.limits``).
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
    max_result_tokens: int | None = None
    max_result_bytes: int | None = None
    cost: int | None = None

    def limits(self) -> dict[str, Any]:
        """Return the limits by name."""
        return {name: getattr(self, name) for name in COLUMNS}


class _Unlimited(ToolLimits):
    """A tool with no limit."""


NO_LIMITS: Final = _Unlimited()
# The column of ``Tool`` for each limit.
COLUMNS: Final = {
    limit.name: {"timeout": "timeout_seconds"}.get(limit.name, limit.name) for limit in fields(ToolLimits)
}
# Integers of at least 1. None means no limit or the default.
POSITIVE: Final = tuple(limit.name for limit in fields(ToolLimits) if limit.type == "int | None")
RESULT_BOUNDS: Final = ("max_result_tokens", "max_result_bytes")
# Boolean limits. If code or an administrator switches such a limit on, the other cannot switch it off.
SWITCHES: Final = tuple(limit.name for limit in fields(ToolLimits) if limit.default is False)
