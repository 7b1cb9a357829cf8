"""Owns the permission that stands for being in a group: so an entry may be for the members of one.

It belongs to Django's groups and not to this server's models: a token without the scope of administration has
it, too.
"""

from __future__ import annotations

import re
from typing import Final

from django.contrib.auth.models import Group, Permission
from django.contrib.contenttypes.models import ContentType

_LABEL: Final = "auth"
_MEMBERSHIP: Final = re.compile(r"auth\.member_of_\w*_([0-9]{1,18})")
# Of the 100 characters of a codename, the number of the group needs some.
_LONGEST_NAME: Final = 60


def membership_of(group: Group) -> str:
    """The permission that the members of a group have; it need not exist yet.

    The number tells groups apart whose names are alike, and is never given to another group.
    """
    words = re.sub(r"\W+", "_", group.name.lower()).strip("_")[:_LONGEST_NAME]
    return f"{_LABEL}.member_of_{words}_{group.pk}"


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
        content_type=kind, codename=codename, defaults={"name": f"Is a member of {group.name}"}
    )
    group.permissions.add(row)


def group_of(permission: str) -> Group | None:
    """The group whose membership a permission is."""
    number = permission.rpartition("_")[2]
    group = Group.objects.filter(pk=int(number)).first() if number.isdecimal() and len(number) < 10 else None
    return group if group is not None and membership_of(group) == permission else None
