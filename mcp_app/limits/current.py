"""The rules that this process applies, and their replacement after a change."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.db import DatabaseError

from mcp_app import servers
from mcp_app.limits.matching import RuleSet
from mcp_app.limits.rules import EACH, Bucket, Rule, Who
from mcp_app.models import LimitRule

# Changes are broadcast. A process that missed a broadcast applies the change after this time, and every
# process applies a change of a group's members after it.
RELOAD_SECONDS: Final = 10.0
TOPIC: Final = "limits"
_OF_GROUPS: Final = frozenset({Who.GROUP, Who.MEMBER})
_AMOUNTS: Final = ("rate", "burst", "concurrent", "budget")
_COPIED: Final = (
    "id", "name", "who", "who_value", "what", "what_value", "rate_period", "budget_unit", "budget_period",
)  # fmt: skip

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


def buckets_of(principal: str, tool: str, tags: Collection[str], path: str) -> tuple[Bucket, ...]:
    """Return the counts of a call. Use it only while ``holder.active``."""
    address = caller_address.get() if holder.by_address else ""
    return holder.rules.buckets(principal, tool, tags, servers.toolset_path(path), address)


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
        rows = list(LimitRule.objects.filter(enabled=True))
        named, members = _named_users(rows), _members(rows)
        replace([_rule(row, _users(row, named, members)) for row in rows])
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
    """Return a stored or new rule as a value, with its users looked up."""
    return _rule(row, _users(row, _named_users([row]), _members([row])))


def _rule(row: LimitRule, users: frozenset[str]) -> Rule:
    amounts: dict[str, Any] = {name: getattr(row, name) or 0 for name in _AMOUNTS}
    copied: dict[str, Any] = {name: getattr(row, name) for name in _COPIED}
    if copied["id"] is None:
        copied["id"] = 0
    return Rule(**copied, **amounts, observe=row.mode == LimitRule.Mode.OBSERVE, users=users)


def _users(
    row: LimitRule, named: Mapping[str, frozenset[str]], members: Mapping[str, frozenset[str]]
) -> frozenset[str]:
    if row.who in _OF_GROUPS:
        return members.get(row.who_value, frozenset())
    return named.get(row.who_value, frozenset()) if row.who == Who.USER else frozenset()


def _named_users(rows: Collection[LimitRule]) -> dict[str, frozenset[str]]:
    """Return the users that rules name, by name. One query for any number of rules."""
    names = {row.who_value for row in rows if row.who == Who.USER and row.who_value != EACH}
    if not names:
        return {}
    field = get_user_model().USERNAME_FIELD
    people: Any = get_user_model()._default_manager.filter(**{f"{field}__in": names})
    return {name: frozenset({f"user:{pk}"}) for name, pk in people.values_list(field, "pk")}


def _members(rows: Collection[LimitRule]) -> dict[str, frozenset[str]]:
    """Return the members of the groups that rules name, by group. One query for any number of rules."""
    names = {row.who_value for row in rows if row.who in _OF_GROUPS}
    if not names:
        return {}
    found: dict[str, set[str]] = {}
    people: Any = get_user_model()._default_manager.filter(groups__name__in=names)
    for name, pk in people.values_list("groups__name", "pk"):
        found.setdefault(name, set()).add(f"user:{pk}")
    return {name: frozenset(users) for name, users in found.items()}
