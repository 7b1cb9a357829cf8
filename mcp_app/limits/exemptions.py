"""The callers that a limit exempts: users, groups and API keys, by name and as stored.

Rows store numbers, such as ``user:7``, so that an exemption still holds after a rename.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError

from mcp_app.models import ApiKey

FIELD: Final = "exempt"
MOST: Final = 100
_KINDS: Final = ("user", "group", "key")


def stored(names: Iterable[str]) -> list[str]:
    """Return exemptions such as ``user:ada`` as they are stored. Raise ValidationError for unknown names."""
    wanted = list(dict.fromkeys(str(name).strip() for name in names))
    if len(wanted) > MOST:
        raise ValidationError({FIELD: [f"A limit can exempt at most {MOST} callers."]})
    found, problems = [], []
    for each in wanted:
        kind, _, name = each.partition(":")
        pk = _number(kind, name) if kind in _KINDS and name else None
        if pk is None:
            kinds = ", ".join(f"{kind}:…" for kind in _KINDS)
            problems.append(f"There is no {each!r}. Use {kinds}, with a name or the number of a key.")
        else:
            found.append(f"{kind}:{pk}")
    if problems:
        raise ValidationError({FIELD: problems})
    return sorted(found)


def names(exempt: Iterable[str]) -> list[str]:
    """Return stored exemptions by name. Deleted users, groups and keys are omitted."""
    numbers: dict[str, list[str]] = {kind: [] for kind in _KINDS}
    for each in exempt:
        kind, _, number = each.partition(":")
        numbers[kind].append(number)
    users: Any = get_user_model()._default_manager
    found: list[str] = []
    if numbers["user"]:
        found += [f"user:{each.get_username()}" for each in users.filter(pk__in=numbers["user"])]
    if numbers["group"]:
        groups = Group.objects.filter(pk__in=numbers["group"])
        found += [f"group:{name}" for name in groups.values_list("name", flat=True)]
    if numbers["key"]:
        keys = ApiKey.objects.filter(pk__in=numbers["key"])
        found += [f"key:{pk}" for pk in keys.values_list("pk", flat=True)]
    return sorted(found)


def _number(kind: str, name: str) -> Any:
    if kind == "user":
        users: Any = get_user_model()._default_manager
        return users.filter(**{users.model.USERNAME_FIELD: name}).values_list("pk", flat=True).first()
    if kind == "group":
        return Group.objects.filter(name=name).values_list("pk", flat=True).first()
    is_number = name.isascii() and name.isdecimal() and len(name) <= 18
    return ApiKey.objects.filter(pk=int(name)).values_list("pk", flat=True).first() if is_number else None
