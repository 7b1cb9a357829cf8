"""Limits whose callers or tools do not exist any more, so that they limit no call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from django.apps import apps

from mcp_app.limits.rules import EACH, What, Who
from mcp_app.models import ApiKey, LimitRule, Tool, Toolset

_OAUTH: Final = "mcp_oauth"


def without_effect(rows: Iterable[LimitRule]) -> dict[int, str]:
    """Return the reasons why limits have no effect, by primary key. One query for each kind of name."""
    found: dict[int, str] = {}
    named: dict[str, list[LimitRule]] = {}
    for row in rows:
        if row.is_orphaned:
            kind = "user" if row.who == Who.USER else "group"
            found[row.pk] = f"the {kind} {row.who_value} was deleted"
        elif row.who in (Who.KEY, Who.CLIENT) and row.who_value != EACH:
            named.setdefault(row.who, []).append(row)
        if row.what in (What.TOOL, What.TOOLSET):
            named.setdefault(row.what, []).append(row)
    for kind, (words, field, existing) in _KINDS.items():
        asked = {row.pk: getattr(row, field) for row in named.get(kind, ())}
        known = existing(set(asked.values())) if asked else set()
        for pk, value in asked.items():
            if value not in known:
                found.setdefault(pk, f"there is no {words} {value}")
    return found


def _keys(numbers: set[str]) -> set[str]:
    return {str(pk) for pk in ApiKey.objects.filter(pk__in=numbers).values_list("pk", flat=True)}


def existing_clients(numbers: set[str]) -> set[str]:
    """Return those numbers of OAuth clients that exist."""
    if not apps.is_installed("mcp_app.oauth"):
        return set()
    clients: Any = apps.get_model(_OAUTH, "Client")._default_manager
    return {str(pk) for pk in clients.filter(pk__in=numbers).values_list("pk", flat=True)}


def _tools(names: set[str]) -> set[str]:
    return set(Tool.objects.filter(name__in=names).values_list("name", flat=True))


def _toolsets(slugs: set[str]) -> set[str]:
    return set(Toolset.objects.filter(slug__in=slugs).values_list("slug", flat=True))


_KINDS: Final[dict[str, tuple[str, str, Callable[[set[str]], set[str]]]]] = {
    Who.KEY: ("API key", "who_value", _keys),
    Who.CLIENT: ("OAuth client", "who_value", existing_clients),
    What.TOOL: ("tool", "what_value", _tools),
    What.TOOLSET: ("toolset", "what_value", _toolsets),
}
