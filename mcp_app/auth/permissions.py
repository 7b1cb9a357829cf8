"""What users may do now; of one, by a statement made once: each credential in use asks every few seconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib.auth import get_backends, get_permission_codename, get_user_model
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import Permission, PermissionsMixin
from django.db import connections, router
from django.db.models import Q, QuerySet

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


def may_view_people(user: Any) -> bool:
    """Whether a user may look at users, whichever model the project has for them."""
    return bool(user.has_perm(people_permission()))


def people_permission() -> str:
    """The name of the permission to look at users."""
    people = get_user_model()._meta
    return f"{people.app_label}.{get_permission_codename('view', people)}"


def holders_of(permission: str, people: Sequence[Any]) -> set[Any]:
    """The keys of those who have a permission; however many they are, the database is asked once."""
    model: Any = get_user_model()
    if not _are_rows(model):
        return {person.pk for person in people if permission in permissions_of(person)}
    rows = rows_of(permission)
    given = Q(user_permissions__in=rows) | Q(groups__permissions__in=rows)
    found = model._default_manager.filter(given, pk__in=[person.pk for person in people])
    keys = set(found.values_list("pk", flat=True))
    return {person.pk for person in people if person.is_superuser or (person.is_active and person.pk in keys)}


def rows_of(permission: str) -> QuerySet[Permission]:
    """What Django keeps of a permission by its name: one row, or none."""
    label, _, codename = permission.partition(".")
    return Permission.objects.filter(content_type__app_label=label, codename=codename)


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
