"""Toolsets of a snapshot: a separate catalogue for each, made of entries of the whole catalogue."""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from typing import Any, Final

from mcp_app import conf
from mcp_app.auth.membership import group_names
from mcp_app.auth.principal import WithoutLogin
from mcp_app.catalogue.schemas import validation
from mcp_app.catalogue.schemas.validation import SchemaError
from mcp_app.catalogue.snapshots.entries import Entry, ResourceEntry, ToolEntry
from mcp_app.catalogue.snapshots.snapshot import EMPTY, KINDS, Catalogue
from mcp_app.catalogue.snapshots.tool_search import NAMES, ToolSearch
from mcp_app.catalogue.sources.preset.arguments import without_arguments
from mcp_app.models import Toolset
from mcp_app.protocol.http import param_headers
from mcp_app.protocol.messages.server import ENDPOINT, Server

# The lists of a catalogue by the kind of their entries, and the list whose revision they share.
LISTS: Final = {"tool": "tools", "prompt": "prompts", "resource": "resources", "template": "templates"}
_REVISIONS: Final = {**{name: name for name in KINDS}, "templates": "resources"}

FAULT: Final = "The toolset {} cannot be offered, because its settings are damaged. Ask an administrator."

log = logging.getLogger("mcp.catalogue")
# Kind and key of an entry.
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Overridden:
    """An entry with the values of a toolset, and the entry and the values that it was made from."""

    entry: Entry
    made_from: Entry
    own: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ServedToolset:
    """A toolset in use. ``refusing`` is its server for callers who may not use it.

    ``problem`` is the reason why the toolset cannot be built. It then offers nothing to anyone, and its
    server has a ``fault``.
    """

    server: Server
    refusing: Server
    catalogue: Catalogue
    audience: str
    permissions: frozenset[str]
    is_default: bool
    overridden: Mapping[Key, Overridden] = field(default_factory=dict)
    problem: str = ""

    def admits(self, permissions: Container[str]) -> bool:
        """Return True if a caller with these permissions may use the toolset."""
        return admits(self.audience, self.permissions, permissions)


def admits(audience: str, required: Iterable[str], permissions: Container[str]) -> bool:
    """Return True if permissions suffice for an audience. Of the required permissions, one is enough."""
    if audience == Toolset.Audience.EVERYONE:
        return True
    if audience == Toolset.Audience.LOGGED_IN:
        return not isinstance(permissions, WithoutLogin)
    return any(name in permissions for name in required)


def path_of(slug: str) -> str:
    """Return the path of a toolset's server."""
    return f"{ENDPOINT}/{slug}"


class Selection:
    """The entries of a whole catalogue by kind, key, tag and source, to select members from."""

    def __init__(self, whole: Catalogue) -> None:
        found: dict[str, Iterable[Entry]] = {
            "tool": whole.tools.values(),
            "prompt": whole.prompts.values(),
            "resource": whole.resources.values(),
            "template": whole.templates,
        }
        self.entries: dict[Key, Entry] = {
            (kind, key_of(entry)): entry for kind, entries in found.items() for entry in entries
        }
        self._tagged: dict[str, set[Key]] = defaultdict(set)
        self._from: dict[str, set[Key]] = defaultdict(set)
        self._sorted = sorted(self.entries, key=_by_key)
        for key, entry in self.entries.items():
            self._from[entry.source].add(key)
            for tag in entry.tags:
                self._tagged[tag].add(key)

    def members(self, members: Sequence[Mapping[str, Any]], rules: Sequence[Mapping[str, Any]]) -> set[Key]:
        """Return the keys of the entries that are named or that match a rule, without the excluded ones."""
        excluded = {_named(each) for each in members if each.get("excluded")}
        named = {_named(each) for each in members}
        return (named & self.entries.keys()).union(*map(self.matching, rules)) - excluded

    def matching(self, rule: Mapping[str, Any]) -> set[Key]:
        """Return the keys of the entries that match all parts of a rule."""
        found: list[set[Key]] = []
        if tag := rule.get("tag"):
            found.append(self._tagged.get(tag, set()))
        if stored := rule.get("source"):
            found.append(self._from.get(stored, set()))
        if prefix := rule.get("prefix"):
            found.append(self._beginning_with(prefix))
        keys = set.intersection(*found) if found else self.entries.keys()
        kind = rule.get("kind")
        return {key for key in keys if not kind or key[0] == kind}

    def _beginning_with(self, prefix: str) -> set[Key]:
        start = bisect_left(self._sorted, prefix, key=_by_key)
        following = islice(self._sorted, start, None)
        return set(takewhile(lambda key: key[1].startswith(prefix), following))


def _by_key(key: Key) -> str:
    return key[1]


def _named(member: Mapping[str, Any]) -> Key:
    return str(member["kind"]), str(member["key"])


def key_of(entry: Any) -> str:
    """Return the name or the URI of an entry."""
    return str(entry.uri if isinstance(entry, ResourceEntry) else entry.name)


def served(
    whole: Catalogue, rows: Iterable[Toolset], before: Mapping[str, ServedToolset], **lists: Any
) -> dict[str, ServedToolset]:
    """Return the toolsets of a whole catalogue by path.

    ``before`` are those of the earlier snapshot. ``lists`` are further arguments of ``Catalogue``.
    """
    rows = list(rows)
    if not rows:
        return {}
    selection, groups = Selection(whole), group_names(_permissions(rows))
    found: dict[str, ServedToolset] = {}
    for row in rows:
        path = path_of(row.slug)
        former = before.get(path)
        former = None if former is None or former.problem else former
        try:
            found[path] = _served(row, path, whole, selection, former, groups, lists)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            # One unusable row must not fail the whole catalogue. /mcp must not offer the whole catalogue
            # instead of an unusable default.
            log.error("Toolset %r is not offered: %s", row.slug, error)  # noqa: TRY400
            found[path] = _faulty(row, path, error)
    return found


def _permissions(rows: Iterable[Toolset]) -> Iterable[str]:
    """Yield the permissions of all rows. Those of unusable rows are omitted."""
    lists = (row.permissions for row in rows if isinstance(row.permissions, list))
    return (name for names in lists for name in names if isinstance(name, str))


def _faulty(row: Toolset, path: str, error: Exception) -> ServedToolset:
    """Return a toolset that cannot be built."""
    server = _server(row, path, fault=FAULT.format(row.slug))
    problem = f"{type(error).__name__}: {error}"
    everyone = Toolset.Audience.EVERYONE
    return ServedToolset(server, server, EMPTY, everyone, frozenset(), row.is_default, problem=problem)


def _served(
    row: Toolset,
    path: str,
    whole: Catalogue,
    selection: Selection,
    before: ServedToolset | None,
    groups: Mapping[str, str],
    lists: Mapping[str, Any],
) -> ServedToolset:
    own = {(each["kind"], each["key"]): own_values(each) for each in row.members}
    overridden: dict[Key, Overridden] = {}
    entries: dict[str, Any] = {name: [] for name in LISTS.values()}
    for key in selection.members(row.members, row.rules):
        entry = selection.entries[key]
        if own.get(key) and entry.wire:
            try:
                overridden[key] = _overridden(entry, key, own[key], before)
            except SchemaError as error:
                log.warning("%s %r is not in toolset %r: %s", key[0].capitalize(), key[1], row.slug, error)
                continue
            entry = overridden[key].entry
        entries[LISTS[key[0]]].append(entry)
    search = None
    if row.searches:
        keywords = {key: str(each["keywords"]) for (_, key), each in own.items() if "keywords" in each}
        search = ToolSearch(row.slug, entries["tools"], keywords)
    revisions = _revisions(row, whole, entries, None if before is None else before.catalogue)
    server = _server(row, path)
    withheld: list[ResourceEntry] = []
    if entries["templates"]:
        shown = {entry.uri for name in ("resources", "templates") for entry in entries[name]}
        withheld = [each for each in (*whole.resources.values(), *whole.templates) if each.uri not in shown]
    return ServedToolset(
        server=server,
        refusing=_server(row, path, refusal=_refusal(row, groups)),
        catalogue=Catalogue(
            revision=whole.revision, revisions=revisions, withheld=withheld, search=search, **entries, **lists
        ),
        audience=row.audience,
        permissions=frozenset(row.permissions),
        is_default=row.is_default,
        overridden=overridden,
    )


def _server(row: Toolset, path: str, refusal: str = "", fault: str = "") -> Server:
    settings = conf.get()
    return Server(
        row.slug,
        settings.server.version,
        title=row.title,
        instructions=row.instructions,
        website=settings.public_url,
        path=path,
        refusal=refusal,
        fault=fault,
    )


def _refusal(row: Toolset, groups: Mapping[str, str]) -> str:
    """Return the reason for callers who may not use a toolset."""
    if row.audience == Toolset.Audience.LOGGED_IN:
        return f"The toolset {row.slug} needs a login or an API key."
    if not row.permissions:
        return f"No group can use the toolset {row.slug} yet. Ask an administrator to choose one."
    names = " or ".join(groups.get(name, name) for name in row.permissions)
    return f"You are not a member of {names}, which the toolset {row.slug} needs. Ask an administrator."


def own_values(member: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a member that apply in this toolset only."""
    return {name: value for name, value in member.items() if name not in ("kind", "key") and value}


def _overridden(entry: Entry, key: Key, own: Mapping[str, Any], before: ServedToolset | None) -> Overridden:
    """Return an entry with a toolset's values. The same entry of the earlier snapshot is reused."""
    former = before.overridden.get(key) if before is not None else None
    if former is not None and former.made_from is entry and former.own == own:
        return former
    made = with_texts(entry, own)
    if isinstance(made, ToolEntry) and own.get("fixed_arguments"):
        made = fixed(made, own["fixed_arguments"])
    return Overridden(made, entry, own)


def with_texts(entry: Entry, own: Mapping[str, Any]) -> Entry:
    """Return an entry with the title and the description of a toolset, if there are any."""
    texts = {name: own[name] for name in ("title", "description") if name in own}
    return replace(entry, wire={**entry.wire, **texts}) if texts else entry


def fixed(entry: ToolEntry, arguments: Mapping[str, Any]) -> ToolEntry:
    """Return a tool with some arguments fixed, which callers cannot send.

    The identity stays: an approval covers all arguments of a call, including fixed ones.
    """
    inner = entry.function
    # Arguments that the preset fixes win, because the preset's function sets them last.
    given = {**arguments, **entry.fixed_arguments}
    schema = without_arguments(entry.wire["inputSchema"], given)
    return replace(
        entry,
        wire={**entry.wire, "inputSchema": schema},
        function=replace(inner, bind=lambda sent: inner.bind({**sent, **given})),
        input=validation.compile_schema(schema),
        whole_input=entry.whole_input or entry.input,
        fixed_arguments=given,
        param_headers=param_headers.read(schema),
    )


def _revisions(
    row: Toolset, whole: Catalogue, entries: Mapping[str, Any], before: Catalogue | None
) -> dict[str, int]:
    """Return the revision at which each list last changed.

    Without an earlier snapshot, a list may have changed as often as that of the whole catalogue.
    """
    if before is None:
        return {name: max(whole.revisions[name], row.revision) for name in KINDS}
    found = {name: before.revisions[name] for name in KINDS}
    searched = before.search is not None
    if searched != row.searches:
        found["tools"] = whole.revision
    former: dict[str, Iterable[Entry]] = {
        "tools": [each for name, each in before.tools.items() if not (searched and name in NAMES)],
        "prompts": before.prompts.values(),
        "resources": before.resources.values(),
        "templates": before.templates,
    }
    for name, present in entries.items():
        if not _make_the_same_list(present, former[name]):
            found[_REVISIONS[name]] = whole.revision
    return found


def _make_the_same_list(entries: Iterable[Any], others: Iterable[Any]) -> bool:
    """Return True if the entries look the same in a list. Deferred entries of both are not built."""
    first, second = sorted(entries, key=_order), sorted(others, key=_order)
    return len(first) == len(second) and all(map(_look_the_same, first, second))


def _look_the_same(entry: Any, other: Any) -> bool:
    return entry is other or (
        (entry.order, key_of(entry), entry.permission) == (other.order, key_of(other), other.permission)
        and entry.wire == other.wire
    )


def _order(entry: Entry) -> Any:
    return entry.order
