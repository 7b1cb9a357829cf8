"""What a user may do now, by a statement that is made once: each credential in use asks every few seconds."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_backends
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import Permission, PermissionsMixin
from django.db import connections, router

from mcp_app.auth.principal import EVERYTHING

_statements: dict[tuple[type, str], str] = {}


def permissions_of(user: Any) -> Any:
    """What a user may do now, as something to look names up in."""
    if getattr(user, "is_superuser", False):
        return EVERYTHING
    if not _are_rows(type(user)):
        return frozenset(user.get_all_permissions())
    if not user.is_active:
        return frozenset()
    alias = router.db_for_read(Permission)
    key = user._meta.pk.get_db_prep_value(user.pk, connections[alias])
    statement = _statements.get((type(user), alias)) or _made(user, alias)
    with connections[alias].cursor() as cursor:
        cursor.execute(statement, [key, key])
        return frozenset(f"{app}.{name}" for app, name in cursor.fetchall())


def _are_rows(model: type) -> bool:
    """Whether Django's rows say it all: a project may have a backend or a user with rules of its own."""
    asked = [type(each) for each in get_backends() if hasattr(each, "get_all_permissions")]
    own = getattr(model, "get_all_permissions", None)
    return own is PermissionsMixin.get_all_permissions and asked == [ModelBackend]


def _made(user: Any, alias: str) -> str:
    """Own permissions and those of the groups, as Django asks for them; two places for the user's key."""
    found = user.user_permissions.all(), Permission.objects.filter(group__in=user.groups.all())
    own, by_groups = (rows.order_by().values_list("content_type__app_label", "codename") for rows in found)
    statement, keys = own.union(by_groups).query.get_compiler(alias).as_sql()
    assert len(keys) == 2, statement
    _statements[type(user), alias] = str(statement)
    return str(statement)
