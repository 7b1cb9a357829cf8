"""Access decisions for entries. Every page shows the same reason for a decision."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from django.contrib.auth.models import Group
from django.db.models import Q

from mcp_app.auth.membership import group_names, group_of, number_of_group
from mcp_app.auth.permissions import may_view_people, names_of, own_holders, permissions_of
from mcp_app.auth.principal import OWN_PERMISSIONS, below
from mcp_app.catalogue.sources.lookup import related, rows_of, source_of
from mcp_app.interface.text import marked
from mcp_app.models import ApiKey, Toolset
from mcp_app.models.catalogue import Row
from mcp_app.protocol.scopes import ADMIN, needed, widened

EVERY: Final = Q()
NOT_PUBLISHED: Final = "not published: it is a draft"
EVERYONE: Final = "everyone"
# The protocol method that uses an entry of each kind.
METHODS: Final = {
    "tool": "tools/call",
    "prompt": "prompts/get",
    "resource": "resources/read",
    "template": "resources/read",
}
Entry = Any


class AccessDecision(NamedTuple):
    """A decision: ``can`` is True if the user can use the entry, and ``why`` is the reason."""

    can: bool
    why: str


@dataclass(frozen=True, slots=True)
class Holder:
    """The facts about a person or an API key that decide on access.

    ``refused`` is the reason if nothing can be used. ``scopes`` limit a key and include implied scopes; None
    means no limit. ``groups`` are the primary keys of the person's groups.
    """

    permissions: Container[str]
    refused: str = ""
    is_superuser: bool = False
    scopes: frozenset[str] | None = None
    groups: Container[Any] = frozenset()


class Giver(NamedTuple):
    """A group that grants a permission."""

    key: Any
    name: str


def may_ask(user: Any) -> bool:
    """Return True if a user may see the access of other people.

    The user must be allowed to view people and at least one kind of entry.
    """
    kinds = ("tool", "prompt", "resource", "resourcetemplate")
    looks = (f"mcp_app.{action}_{kind}" for action in ("view", "change") for kind in kinds)
    return may_view_people(user) and any(map(user.has_perm, looks))


def holder_of(user: Any) -> Holder:
    """Return the current facts about a person."""
    groups = getattr(user, "groups", None)
    return Holder(
        permissions_of(user),
        "" if user.is_active else "the account is not active",
        bool(getattr(user, "is_superuser", False)),
        groups=frozenset(groups.values_list("pk", flat=True)) if groups is not None else frozenset(),
    )


def holder_of_key(key: ApiKey) -> Holder:
    """Return the facts about an API key: the facts about its user, limited by the key's scopes."""
    ended = "the key is revoked" if key.revoked_at else "" if key.usable else "the key has expired"
    return limited_holder(key.user, key.scopes, ended)


def limited_holder(user: Any, given: str, refused: str = "") -> Holder:
    """Return the facts about a credential of a user, limited by the given scopes."""
    own, scopes = holder_of(user), widened(given.split())
    permissions = below(scopes, own.permissions)
    return Holder(permissions, refused or own.refused, own.is_superuser, scopes, own.groups)


def holder_of_group(group: Group) -> Holder:
    """Return the facts about a member whose permissions come from one group only."""
    rows = group.permissions.values_list("content_type__app_label", "codename")
    permissions = frozenset(f"{label}.{codename}" for label, codename in rows)
    return Holder(permissions, groups=frozenset({group.pk}))


def holders_in_words(permission: str) -> str:
    """Return a phrase that describes the callers with a permission, or ``EVERYONE`` for ""."""
    return all_holders_in_words([permission])[permission]


def all_holders_in_words(permissions: Collection[str]) -> dict[str, str]:
    """Map each permission to a phrase that describes its holders.

    The phrase names the groups that grant the permission and counts its other holders. It mentions
    superusers, who have every permission, only where no other user has it.
    """
    asked = {permission for permission in permissions if permission}
    givers, names, own = givers_of(asked), names_of(asked), own_holders(asked)
    words: dict[str, str] = {permission: EVERYONE for permission in permissions if not permission}
    for permission in asked:
        groups = [giver.name for giver in givers.get(permission, ())]
        if (group := group_of(permission)) is not None:
            others = [name for name in groups if name != group.name]
            words[permission] = f"members of {marked(' or '.join([group.name, *others]))}"
            continue
        held = [f"members of {marked(' or '.join(groups))}"] if groups else []
        if number := own.get(permission, 0) if own is not None else 0:
            held.append("1 user" if number == 1 else f"{number:,} users")
        what = f"the permission “{marked(names.get(permission, permission))}”"
        if held or own is None:
            words[permission] = f"users with {what}" + (f" ({', '.join(held)})" if held else "")
        else:
            words[permission] = f"only superusers (no group or user has {what})"
    return words


def decisions(
    kind: type[Row], holder: Holder, *, named: Q = EVERY, most: int
) -> Iterator[tuple[Row, AccessDecision]]:
    """Yield entries of a kind in the order of their keys, each with the decision about a holder.

    ``named`` selects entries, of which at most ``most`` are read. The number of queries does not depend on
    the number of entries.
    """
    columns = ["id", kind.KEY, "permission", "enabled", "missing", "source"]
    behind = [f"{relation}__{column}" for relation in related(kind) for column in columns]
    entries = list(rows_of(kind).filter(named).only(*columns, *behind).order_by(kind.KEY)[:most])
    givers = givers_of({permission_of(entry) for entry in entries})
    for entry in entries:
        yield entry, verdict(entry, kind.KIND, holder, givers.get(permission_of(entry), ()))


def obstacle_of(entry: Entry) -> str:
    """Return the reason why no caller can use an entry, or ""."""
    return source_of(entry).problem(entry)


def permission_of(entry: Entry) -> str:
    """Return the permission that an entry requires of its callers, or ""."""
    return source_of(entry).permission_of(entry)


def givers_of(permissions: Collection[str]) -> dict[str, list[Giver]]:
    """Map each permission to the groups that grant it, ordered by name, in one query."""
    asked = [permission.partition(".") for permission in set(permissions) if permission]
    named = Q()
    for label in {label for label, _, _ in asked}:
        codenames = [codename for each, _, codename in asked if each == label]
        named |= Q(permissions__content_type__app_label=label, permissions__codename__in=codenames)
    found: dict[str, list[Giver]] = defaultdict(list)
    if asked:
        columns = ("permissions__content_type__app_label", "permissions__codename", "pk", "name")
        for label, codename, pk, name in Group.objects.filter(named).order_by("name").values_list(*columns):
            found[f"{label}.{codename}"].append(Giver(pk, name))
    return found


def named_after(permission: str, givers: Sequence[Giver]) -> Giver | None:
    """Return the group that a membership permission is for, or None if ``givers`` lack it."""
    number = number_of_group(permission)
    return next((giver for giver in givers if giver.key == number), None)


def verdict(entry: Entry, kind: str, holder: Holder, givers: Sequence[Giver]) -> AccessDecision:
    """Return the decision with its first reason. ``givers`` are the groups that grant the permission."""
    if refused := obstacle_of(entry) or holder.refused:
        return AccessDecision(False, refused)
    scope = needed(METHODS[kind])
    if holder.scopes is not None and scope not in holder.scopes:
        return AccessDecision(False, f"the key does not have the scope {scope}")
    permission = permission_of(entry)
    if not permission:
        return AccessDecision(True, "everyone can use it")
    if permission in holder.permissions:
        if holder.is_superuser:
            return AccessDecision(True, "superusers have every permission")
        own = ", ".join(giver.name for giver in givers if giver.key in holder.groups)
        return AccessDecision(True, f"by the group {marked(own)}" if own else "own permission")
    if holder.scopes is not None and ADMIN not in holder.scopes and permission.startswith(OWN_PERMISSIONS):
        lacking = f"{marked(permission)} counts only for keys with the scope {ADMIN}"
        return AccessDecision(False, lacking)
    return AccessDecision(False, _lacking(permission, givers))


def toolset_decision(row: Toolset, holder: Holder) -> AccessDecision:
    """Return the decision about a holder's access to a toolset, with its first reason."""
    if refused := "" if row.enabled else "the toolset is disabled":
        return AccessDecision(False, refused)
    if holder.refused:
        return AccessDecision(False, holder.refused)
    if row.audience != Toolset.Audience.GROUPS:
        return AccessDecision(True, f"it is for {row.get_audience_display()}")
    names = group_names(row.permissions)
    held = [names.get(name, name) for name in row.permissions if name in holder.permissions]
    if holder.is_superuser:
        return AccessDecision(True, "superusers have every permission")
    if held:
        return AccessDecision(True, f"member of {marked(', '.join(held))}")
    wanted = " or ".join(sorted(set(names.values()))) or "a group that exists"
    return AccessDecision(False, f"not a member of {marked(wanted)}")


def _lacking(permission: str, givers: Sequence[Giver]) -> str:
    """Return the reason that a permission is missing, with the groups that would grant it."""
    group = named_after(permission, givers)
    others = ", ".join(giver.name for giver in givers if giver is not group)
    lacks = f"not a member of {marked(group.name)}" if group else f"no permission {marked(permission)}"
    return (
        f"{lacks}; these groups {'count as well' if group else 'have it'}: {marked(others)}"
        if others
        else lacks
    )
