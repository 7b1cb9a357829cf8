"""Groups of a toolset by name. Rows store memberships, which stay valid if a group is renamed."""

from __future__ import annotations

from collections.abc import Iterable

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError

from mcp_app.auth.membership import group_names, memberships

FIELD = "groups"


def memberships_of(names: Iterable[str]) -> list[str]:
    """Return the membership permissions of groups. Raises ValidationError for an unknown group."""
    wanted = list(dict.fromkeys(names))
    found = {group.name: group for group in Group.objects.filter(name__in=wanted)}
    if unknown := [name for name in wanted if name not in found]:
        raise ValidationError({FIELD: [f"There is no group {name!r}." for name in unknown]})
    held = memberships(found.values())
    return sorted(held[found[name].pk][0] for name in wanted)


def names_of(permissions: Iterable[str]) -> list[str]:
    """Return the names of the groups of membership permissions. Deleted groups are omitted."""
    return sorted(set(group_names(permissions).values()))
