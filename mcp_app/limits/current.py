"""The rules that this process applies, and their replacement after a change."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from operator import attrgetter
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.db import DatabaseError

from mcp_app import servers
from mcp_app.limits.matching import RuleSet
from mcp_app.limits.rules import OF_TOOLS, Bucket, Rule
from mcp_app.models import LimitRule

# Changes are broadcast. A process that missed a broadcast applies the change after this time, and every
# process applies a change of a group's members after it.
RELOAD_SECONDS: Final = 10.0
TOPIC: Final = "limits"
# The plans of calls that one process caches; then it begins again.
REMEMBERED: Final = 10_000
_GROUP: Final = "group:"
_AMOUNTS: Final = ("rate", "burst", "concurrent", "budget")
_COPIED: Final = (
    "id", "name", "who", "what", "what_value", "rate_period", "budget_unit", "budget_period",
)  # fmt: skip

_own_limits: Final = attrgetter(*OF_TOOLS)

# The network address of the request being served. It is set only while rules name addresses.
caller_address: ContextVar[str] = ContextVar("caller_address", default="")


class _Holder:
    """The holder of the rules. ``active`` is False without rules, so that calls cost nothing more."""

    active = False
    by_address = False
    rules = RuleSet()
    loaded_at = -RELOAD_SECONDS


holder = _Holder()
_loading = threading.Lock()


def buckets_of(principal: str, tool: Any, path: str) -> tuple[Bucket, ...]:
    """Return the counts of a call of ``tool``, an entry of the catalogue."""
    rules, default = holder.rules, servers.default.path
    address = caller_address.get() if holder.by_address else ""
    asked = (principal, tool.name, tool.tags, _own_limits(tool), path, default, address)
    found = rules.plans.get(asked)
    if found is None:
        if len(rules.plans) >= REMEMBERED:
            rules.plans.clear()
        found = rules.plans[asked] = rules.buckets(principal, tool, servers.toolset_path(path), address)
    return found


@contextmanager
def called_from(address: str) -> Iterator[None]:
    """Count calls within this context for a network address."""
    token = caller_address.set(address)
    try:
        yield
    finally:
        caller_address.reset(token)


def load() -> None:
    """Load the rules. Blocks on the database."""
    with _loading:
        loaded_at = time.monotonic()
        rows = list(LimitRule.objects.filter(enabled=True).select_related("user", "group"))
        members = _members(rows)
        replace([_rule(row, members) for row in rows])
        holder.loaded_at = loaded_at


def load_if_old() -> None:
    """Load the rules if this process has not done so lately, for code without an event loop.

    While the database fails, the rules in use stay.
    """
    if time.monotonic() - holder.loaded_at >= RELOAD_SECONDS:
        try:
            load()
        except DatabaseError:
            holder.loaded_at = time.monotonic()


def replace(rules: Collection[Rule]) -> None:
    """Apply these rules from now on. If nothing changed, the cached plans of calls stay."""
    found = tuple(sorted(rules, key=lambda rule: rule.name))
    if found == holder.rules.rules:
        return
    holder.rules = RuleSet(found)
    holder.by_address = holder.rules.by_address
    holder.active = bool(rules)


def rule_of(row: LimitRule) -> Rule:
    """Return a stored or new rule as a value, with its users."""
    return _rule(row, _members([row]))


def _rule(row: LimitRule, members: Mapping[Any, frozenset[str]]) -> Rule:
    amounts: dict[str, Any] = {name: getattr(row, name) or 0 for name in _AMOUNTS}
    copied: dict[str, Any] = {name: getattr(row, name) for name in _COPIED}
    if copied["id"] is None:
        copied["id"] = 0
    users = frozenset({f"user:{row.user_id}"}) if row.user_id is not None else members.get(row.group_id)
    return Rule(
        **copied,
        **amounts,
        who_value=row.who_name,
        observe=row.mode == LimitRule.Mode.OBSERVE,
        users=users or frozenset(),
        group="" if row.group_id is None else str(row.group_id),
        exempt=_exempt(row, members),
    )


def _exempt(row: LimitRule, members: Mapping[Any, frozenset[str]]) -> frozenset[str]:
    """Return the persons and API keys that a rule exempts, with the members of groups."""
    groups = (members.get(each, frozenset()) for each in _exempt_groups(row))
    return frozenset(each for each in row.exempt if not each.startswith(_GROUP)).union(*groups)


def _exempt_groups(row: LimitRule) -> Iterator[int]:
    return (int(each.removeprefix(_GROUP)) for each in row.exempt if each.startswith(_GROUP))


def _members(rows: Collection[LimitRule]) -> dict[Any, frozenset[str]]:
    """Return the members of the groups of rules by group. One query for any number of rules."""
    groups = {row.group_id for row in rows if row.group_id is not None}
    groups |= {group for row in rows for group in _exempt_groups(row)}
    if not groups:
        return {}
    found: dict[Any, set[str]] = {}
    people: Any = get_user_model()._default_manager.filter(groups__in=groups)
    for group, pk in people.values_list("groups", "pk"):
        found.setdefault(group, set()).add(f"user:{pk}")
    return {group: frozenset(users) for group, users in found.items()}
