"""Permissions that represent membership in a group, so that a catalogue entry can be limited to a group.

The permissions belong to Django's app ``auth``, not to this server's apps. Tokens without the admin scope
therefore include them.
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
# A codename has at most 100 characters. The prefix and the group's number need the rest.
_LONGEST_NAME: Final = 60


def membership_of(group: Group) -> str:
    """Return the name of the permission for members of a group. The permission may not exist yet.

    The name contains the group's current name and its number. The number distinguishes similar names and is
    never reused.
    """
    words = re.sub(r"\W+", "_", group.name.lower()).strip("_")[:_LONGEST_NAME]
    return f"{_LABEL}.member_of_{words}_{group.pk}"


def memberships(groups: Iterable[Group]) -> dict[Any, list[str]]:
    """Map each group's primary key to its membership permissions, the one with the current name first.

    A renamed group keeps its earlier permissions, because catalogue entries refer to them.
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
    """Return the group number in the name of a membership permission, or None for another permission."""
    found = _MEMBERSHIP.fullmatch(permission)
    return int(found[1]) if found else None


def group_names(permissions: Iterable[str]) -> dict[str, str]:
    """Map membership permissions of existing groups to the current names of the groups, in one query."""
    numbers = {name: number for name in permissions if (number := number_of_group(name)) is not None}
    if not numbers:
        return {}
    names = dict(Group.objects.filter(pk__in=set(numbers.values())).values_list("pk", "name"))
    return {name: names[number] for name, number in numbers.items() if number in names}


def grant_membership(permission: str) -> None:
    """Create a membership permission and grant it to its group. Ignore other permissions."""
    group = group_of(permission)
    if group is None:
        return
    kind = ContentType.objects.get_for_model(Group)
    codename = permission.partition(".")[2]
    row, _ = Permission.objects.get_or_create(
        content_type=kind, codename=codename, defaults={"name": _text(group)}
    )
    group.permissions.add(row)


def rename_memberships(group: Group) -> None:
    """Update the display names of a group's membership permissions after the group was renamed.

    The codenames do not change, because catalogue entries refer to them.
    """
    codenames = [name.partition(".")[2] for name in memberships([group])[group.pk]]
    kind = ContentType.objects.get_for_model(Group)
    Permission.objects.filter(content_type=kind, codename__in=codenames).update(name=_text(group))


def _text(group: Group) -> str:
    return f"Is a member of {group.name}"


def group_of(permission: str) -> Group | None:
    """Return the group of a membership permission, or None.

    The name must match as well as the number, because the number in an imported catalogue may belong to
    another group.
    """
    number = number_of_group(permission)
    group = Group.objects.filter(pk=number).first() if number is not None and number < 10**9 else None
    if group is None or membership_of(group) == permission:
        return group
    return group if permission in memberships([group])[group.pk] else None
