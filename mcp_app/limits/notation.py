"""The short notation of limits, such as ``user:ada``, ``tool:search`` and ``100/hour``."""

from __future__ import annotations

import re
from typing import Any, Final

from mcp_app.limits import exemptions
from mcp_app.limits.rules import What, Who
from mcp_app.models import LimitRule

_AMOUNT: Final = re.compile(r"([0-9]{1,15})/([a-z]+)")


def who_fields(text: str) -> dict[str, Any]:
    """Return the columns of callers such as ``user:ada`` or ``installation``. Raise ValueError."""
    kind, _, value = text.partition(":")
    if kind not in Who.values:
        raise ValueError(f"{text!r} is not one of {', '.join(f'{each}:…' for each in Who.values)}")
    return {"who": kind, "who_value": value}


def what_fields(text: str) -> dict[str, Any]:
    """Return the columns of tools such as ``tool:search`` or ``everything``. Raise ValueError."""
    kind, _, value = text.partition(":")
    if kind not in What.values:
        raise ValueError(f"{text!r} is not one of {', '.join(f'{each}:…' for each in What.values)}")
    return {"what": kind, "what_value": value}


def amount_fields(column: str, text: str) -> dict[str, Any]:
    """Return the columns of an amount such as ``100/hour``. Raise ValueError.

    ``column`` is rate or budget.
    """
    found = _AMOUNT.fullmatch(text)
    periods = LimitRule.RatePeriod.values if column == "rate" else LimitRule.BudgetPeriod.values
    if found is None or found[2] not in periods:
        raise ValueError(f"{text!r} is not a number and one of {', '.join(f'/{each}' for each in periods)}")
    return {column: int(found[1]), f"{column}_period": found[2]}


def who_text(rule: Any) -> str:
    """Return the callers of a rule, such as ``user:ada``."""
    name = rule.who_name
    return f"{rule.who}:{name}" if name else str(rule.who)


def exempt_text(row: LimitRule) -> str:
    """Return the callers that a stored rule exempts, such as ``user:ada, key:3``, or ""."""
    return ", ".join(exemptions.names(row.exempt))


def what_text(rule: Any) -> str:
    """Return the tools of a rule, such as ``tool:search``."""
    return f"{rule.what}:{rule.what_value}" if rule.what_value else str(rule.what)


def amounts_text(rule: Any) -> str:
    """Return the amounts of a rule, such as ``100 calls per hour, 5 concurrent calls``."""
    parts = []
    if rule.rate:
        burst = f" (burst {rule.burst:,})" if rule.burst else ""
        parts.append(f"{rule.rate:,} {plural('call', rule.rate)} per {rule.rate_period}{burst}")
    if rule.concurrent:
        parts.append(f"{rule.concurrent:,} concurrent {plural('call', rule.concurrent)}")
    if rule.budget:
        unit = plural("call" if rule.budget_unit == LimitRule.Unit.CALLS else "cost unit", rule.budget)
        parts.append(f"budget of {rule.budget:,} {unit} per {rule.budget_period}")
    return ", ".join(parts)


def plural(unit: str, number: int) -> str:
    """Return the unit of a number, in the plural unless the number is 1."""
    return unit if number == 1 else f"{unit}s"
