"""Rules and their buckets as immutable values, without I/O."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from mcp_app.models import LimitRule

Who, What = LimitRule.Who, LimitRule.What
EACH: Final = "*"
MICROSECONDS: Final = 1_000_000
SECONDS: Final = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400}
RATE, CONCURRENT, BUDGET = MEASURES = ("rate", "concurrent", "budget")
# The limits of a tool for each person (``ToolLimits``): their measure and period.
OF_TOOLS: Final = {"calls_per_minute": (RATE, "minute")}
# A process leases the calls of this many seconds ahead, and at most this part of the burst.
LEASE_SECONDS: Final = 0.05
LEASE_PART: Final = 4
# The groups of callers. Of the rules of one level, the most specific holds; rules of all levels hold.
LEVELS: Final = {
    Who.ADDRESS: 0, Who.KEY: 1, Who.CLIENT: 1, Who.USER: 2, Who.MEMBER: 2, Who.GROUP: 2, Who.INSTALLATION: 3,
}  # fmt: skip
_WHAT_RANK: Final = {What.EVERYTHING: 0, What.TOOLSET: 1, What.TAG: 2, What.TOOL: 3}
_WHO_RANK: Final = {Who.USER: 3, Who.MEMBER: 2, Who.GROUP: 1}


class Period(NamedTuple):
    """A period of the calendar, in UTC."""

    start: datetime
    end: datetime

    @classmethod
    def at(cls, name: str, now: datetime) -> Period:
        """Return the hour, day or month that contains ``now``."""
        hour = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        if name == "hour":
            return cls(hour, hour + timedelta(hours=1))
        day = hour.replace(hour=0)
        if name == "day":
            return cls(day, day + timedelta(days=1))
        month = day.replace(day=1)
        return cls(month, (month + timedelta(days=32)).replace(day=1))


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule as stored, with the users that its names stand for, or the rule of a tool.

    The ``id`` of a tool's rule is the negative primary key of the tool. ``users`` are the persons: the named
    user, or the members of the group with the primary key ``group``. ``exempt`` are persons and API keys,
    such as ``user:7`` and ``key:3``.
    """

    id: int
    name: str
    who: str
    who_value: str
    what: str
    what_value: str
    rate: int = 0
    rate_period: str = "minute"
    burst: int = 0
    concurrent: int = 0
    budget: int = 0
    budget_unit: str = "calls"
    budget_period: str = "month"
    observe: bool = False
    users: frozenset[str] = frozenset()
    group: str = ""
    exempt: frozenset[str] = frozenset()

    @classmethod
    def of_tool(cls, tool: Any) -> Rule | None:
        """Return the rule that a tool has by its own limits, or None. ``tool`` is an entry."""
        amounts: dict[str, Any] = {}
        for limit, (measure, period) in OF_TOOLS.items():
            if amount := getattr(tool, limit):
                amounts |= {measure: amount, f"{measure}_period": period}
        if not amounts:
            return None
        return cls(-tool.order[-1], f"tool:{tool.name}", Who.USER, EACH, What.TOOL, tool.name, **amounts)

    @property
    def tool_id(self) -> int | None:
        """The primary key of the tool whose own limit this is, or None."""
        return -self.id if self.id < 0 else None

    @property
    def who_name(self) -> str:
        """The name or number of the callers, as of a stored rule."""
        return self.who_value

    @property
    def emission(self) -> int:
        """The microseconds between two calls at the rate, rounded up so that the rate is never exceeded."""
        return -(-SECONDS[self.rate_period] * MICROSECONDS // self.rate)

    def measures(self) -> tuple[str, ...]:
        """Return the measures that the rule limits."""
        amounts = (self.rate, self.concurrent, self.budget)
        return tuple(name for name, amount in zip(MEASURES, amounts, strict=True) if amount)

    def takes(self, tool: str, tags: Collection[str], toolset: str) -> bool:
        """Return True if calls of the tool count."""
        if self.what == What.TOOL:
            return self.what_value == tool
        if self.what == What.TAG:
            return self.what_value in tags
        return self.what == What.EVERYTHING or self.what_value == toolset

    def rank(self, measure: str) -> tuple[int, int, float, str]:
        """Return the specificity by which one rule of a level is chosen: its tools, callers, then amount."""
        who = 0 if self.who_value == EACH else _WHO_RANK.get(Who(self.who), 3)
        amounts = {CONCURRENT: float(self.concurrent), BUDGET: float(self.budget)}
        amount = self.rate / SECONDS[self.rate_period] if measure == RATE else amounts[measure]
        return (_WHAT_RANK[What(self.what)], who, -amount, self.name)


def has_limit(tool: Any) -> bool:
    """Return True if a tool has calls per minute."""
    return any(getattr(tool, limit) for limit in OF_TOOLS)


@dataclass(frozen=True, slots=True)
class Bucket:
    """One measure of a rule, counted for one subject: a user, an API key, the installation and so on."""

    rule: Rule
    measure: str
    subject: str
    key: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Set ``key``, the name of the count that all processes share."""
        object.__setattr__(self, "key", f"{self.rule.id}/{self.measure}/{self.subject}")

    @property
    def burst(self) -> int:
        """The calls of a rate that may come at once."""
        return self.rule.burst or self.rule.rate

    @property
    def lease(self) -> int:
        """The calls of a rate that one process reserves ahead."""
        ahead = int(LEASE_SECONDS * MICROSECONDS / self.rule.emission)
        return max(1, min(ahead, self.burst // LEASE_PART))

    @property
    def scope(self) -> str:
        """The callers and tools of the count, for answers: "user", or "user tool:search"."""
        what = "" if self.rule.what == What.EVERYTHING else f" {self.rule.what}:{self.rule.what_value}"
        return f"{self.rule.who}{what}"
