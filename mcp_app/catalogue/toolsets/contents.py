"""The entries of a toolset and what its lists cost in a model's context, for people who choose them.

The estimate is that of the OpenAPI import and of long results: one token for four bytes of JSON.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import orjson
from django.db.models import Q

from mcp_app.catalogue.definitions.tool_limits import BYTES_PER_TOKEN
from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.catalogue.snapshots.entries import Entry, ToolEntry
from mcp_app.catalogue.snapshots.tool_search import ToolSearch
from mcp_app.catalogue.snapshots.toolsets import Key, Selection, fixed, own_values, with_texts
from mcp_app.database import clock
from mcp_app.message_log.rollups import DAY, HOUR
from mcp_app.message_log.traffic import by_index, calls_of
from mcp_app.models import Toolset

UNUSED_DAYS: Final = 30


@dataclass(frozen=True, slots=True)
class Member:
    """An entry in a toolset, or one that can become a member. ``tokens`` is the size of its definition."""

    kind: str
    key: str
    title: str
    tokens: int
    tags: tuple[str, ...] = ()
    permission: str = ""
    is_named: bool = False

    @property
    def identity(self) -> str:
        """Kind and key as one text, for forms."""
        return f"{self.kind} {self.key}"


@dataclass(frozen=True, slots=True)
class Contents:
    """The entries that a toolset offers now, and the named members that are not offered.

    ``searching`` are the tokens of the tools for search, which clients get instead of a list, or None.
    """

    members: list[Member] = field(default_factory=list)
    missing: list[Key] = field(default_factory=list)
    searching: int | None = None

    @property
    def tokens(self) -> int:
        """The estimated number of tokens of all lists."""
        listed = (
            self.members if self.searching is None else [each for each in self.members if each.kind != "tool"]
        )
        return sum(member.tokens for member in listed) + (self.searching or 0)

    @property
    def tools(self) -> list[Member]:
        """The tools among the entries."""
        return [member for member in self.members if member.kind == "tool"]


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of a change: the members that a toolset gains and loses, and its tokens before and after."""

    gained: list[Member]
    lost: list[Member]
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Unused:
    """The tools of a toolset without a call for UNUSED_DAYS, and their share of the tools' tokens."""

    tools: list[Member]
    of: int
    percent: int


def choices() -> list[Member]:
    """Return all entries in use, from which members can be chosen, in the order of lists."""
    selection = _selection()
    found = sorted(selection.entries.items(), key=lambda item: (_KINDS.index(item[0][0]), item[1].order))
    return [_member(key, entry) for key, entry in found]


def contents_of(row: Toolset) -> Contents:
    """Return the entries of a toolset, which may be disabled or not stored yet."""
    return next(iter(contents_of_each([row])))


def effect_of(before: Toolset | None, after: Toolset) -> Effect:
    """Return the effect of a change of a toolset, which is new if ``before`` is None."""
    old, new = contents_of_each([before or Toolset(), after])
    had, has = ({each.identity for each in found.members} for found in (old, new))
    gained = [each for each in new.members if each.identity not in had]
    lost = [each for each in old.members if each.identity not in has]
    return Effect(gained, lost, old.tokens, new.tokens)


def contents_of_each(rows: Iterable[Toolset]) -> Iterable[Contents]:
    """Yield the entries of each toolset."""
    selection = _selection()
    for row in rows:
        own = {
            (str(each["kind"]), str(each["key"])): own_values(each)
            for each in row.members
            if not each.get("excluded")
        }
        found = selection.members(row.members, row.rules)
        entries = {key: _changed(selection.entries[key], own.get(key, {})) for key in found}
        order = sorted(entries, key=lambda key: (_KINDS.index(key[0]), entries[key].order))
        members = [_member(key, entries[key], is_named=key in own) for key in order]
        searching = search_tokens() if row.searches else None
        yield Contents(members, sorted(own.keys() - selection.entries.keys()), searching)


def matching_rules(row: Toolset) -> set[str]:
    """Return the identities of the entries that a rule of a toolset matches."""
    return {f"{kind} {key}" for kind, key in _selection().members((), row.rules)}


def search_tokens() -> int:
    """Return the estimated tokens of the tools for search."""
    return sum(tokens_of(entry) for entry in ToolSearch("", (), {}).entries())


def unused_in(contents: Contents) -> Unused:
    """Return the tools that were not called in the last UNUSED_DAYS days."""
    tools = contents.tools
    called = called_lately([tool.key for tool in tools])
    unused = [tool for tool in tools if tool.key not in called]
    total = sum(tool.tokens for tool in tools)
    percent = round(100 * sum(tool.tokens for tool in unused) / total) if total else 0
    return Unused(unused, len(tools), percent)


def called_lately(names: Collection[str] | None = None) -> set[str]:
    """Return the names of the tools, all or in ``names``, that were called in the last UNUSED_DAYS days."""
    since = clock.utcnow() - timedelta(days=UNUSED_DAYS)
    with by_index():
        rows = calls_of(Q(span__in=(HOUR, DAY), at__gt=since)).order_by()
        if names is not None:
            rows = rows.filter(tool__in=names)
        return set(rows.values_list("tool", flat=True).distinct())


_KINDS: Final = ("tool", "prompt", "resource", "template")


def _selection() -> Selection:
    whole = current_snapshot.refresh_now()
    found: Selection | None = whole.prepared.get("selection")
    if found is None:
        found = whole.prepared["selection"] = Selection(whole)
    return found


def _changed(entry: Entry, own: Mapping[str, Any]) -> Entry:
    changed = with_texts(entry, own)
    arguments = own.get("fixed_arguments")
    return fixed(changed, arguments) if arguments and isinstance(changed, ToolEntry) else changed


def _member(key: Key, entry: Entry, *, is_named: bool = False) -> Member:
    title = str(entry.wire.get("title") or "")
    return Member(*key, title, tokens_of(entry), entry.tags, entry.permission, is_named)


def tokens_of(entry: Entry) -> int:
    """Return the estimated tokens of an entry's definition."""
    return len(orjson.dumps(entry.wire, default=str)) // BYTES_PER_TOKEN
