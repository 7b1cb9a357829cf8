"""Owns the permission that stands for being in a group: so an entry may be for the members of one.

It belongs to Django's groups and not to this server's models: a token without the scope of administration has
it, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from django.contrib.auth.models import Group, Permission
from django.contrib.contenttypes.models import ContentType

_LABEL: Final = "auth"
_PREFIX: Final = "member_of_"
_MEMBERSHIP: Final = re.compile(r"auth\.member_of_\w*_([0-9]{1,18})")
# Of the 100 characters of a codename, the number of the group needs some.
_LONGEST_NAME: Final = 60


def membership_of(group: Group) -> str:
    """The permission that is made for the members of a group as it is called now; it need not exist yet.

    The number tells groups apart whose names are alike, and is never given to another group.
    """
    words = re.sub(r"\W+", "_", group.name.lower()).strip("_")[:_LONGEST_NAME]
    return f"{_LABEL}.member_of_{words}_{group.pk}"


def memberships(groups: Iterable[Group]) -> dict[Any, list[str]]:
    """By the key of each group the permissions that stand for it, never none, the one to choose first.

    A group that was renamed keeps the permission that was made under its old name: entries name that one.
    """
    named = {group.pk: membership_of(group) for group in groups}
    rows = Group.objects.filter(pk__in=named, permissions__codename__startswith=_PREFIX)
    held: dict[Any, list[str]] = {key: [] for key in named}
    for key, codename in rows.order_by("permissions__pk").values_list("pk", "permissions__codename"):
        if number_of_group(f"{_LABEL}.{codename}") == key:
            held[key].append(f"{_LABEL}.{codename}")
    return {
        key: sorted(names, key=lambda name: name != named[key]) or [named[key]] for key, names in held.items()
    }


def number_of_group(permission: str) -> int | None:
    """The number of the group that a permission is named after, whatever the group is called now."""
    found = _MEMBERSHIP.fullmatch(permission)
    return int(found[1]) if found else None


def grant_membership(permission: str) -> None:
    """Make a permission of ``membership_of`` and give it to its group; others are left alone."""
    group = group_of(permission)
    if group is None:
        return
    kind = ContentType.objects.get_for_model(Group)
    codename = permission.partition(".")[2]
    row, _ = Permission.objects.get_or_create(
        content_type=kind, codename=codename, defaults={"name": _words(group)}
    )
    group.permissions.add(row)


def rename_memberships(group: Group) -> None:
    """Let what stands for being in a group say its name of now; codenames stay, for entries have them."""
    codenames = [name.partition(".")[2] for name in memberships([group])[group.pk]]
    kind = ContentType.objects.get_for_model(Group)
    Permission.objects.filter(content_type=kind, codename__in=codenames).update(name=_words(group))


def _words(group: Group) -> str:
    return f"Is a member of {group.name}"


def group_of(permission: str) -> Group | None:
    """The group whose membership a permission is, whatever the group is called now.

    The number alone does not decide: in a catalogue from elsewhere it is that of another group.
    """
    number = number_of_group(permission)
    group = Group.objects.filter(pk=number).first() if number is not None and number < 10**9 else None
    if group is None or membership_of(group) == permission:
        return group
    return group if permission in memberships([group])[group.pk] else None
