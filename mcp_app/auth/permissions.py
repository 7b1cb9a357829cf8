"""Permissions of users, read with one prebuilt SQL statement.

The statement must be fast, because credentials in use are checked every few seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from django.contrib.auth import get_backends, get_permission_codename, get_user_model
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import Permission, PermissionsMixin
from django.core.exceptions import PermissionDenied
from django.db import connections, router
from django.db.models import Count, Q, QuerySet

from mcp_app.auth.principal import EVERYTHING


class PermissionMissing(PermissionDenied):
    """Raised if a user lacks one of the permissions that a page needs. The page of the error names them."""

    def __init__(self, *permissions: str) -> None:
        super().__init__()
        self.permissions = permissions


_statements: dict[tuple[type, str], str] = {}


def permissions_of(user: Any) -> Any:
    """Return a user's current permissions as a container of permission names."""
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
    """Return True if a user may view users. Works with any user model."""
    return bool(user.has_perm(people_permission()))


def people_permission() -> str:
    """Return the name of the permission to view users."""
    people = get_user_model()._meta
    return f"{people.app_label}.{get_permission_codename('view', people)}"


def holders_of(permission: str, people: Sequence[Any]) -> set[Any]:
    """Return the primary keys of those ``people`` who have a permission.

    This takes one query if the project uses only Django's own backend.
    """
    model: Any = get_user_model()
    if not _are_rows(model):
        return {person.pk for person in people if permission in permissions_of(person)}
    rows = rows_of(permission)
    given = Q(user_permissions__in=rows) | Q(groups__permissions__in=rows)
    found = model._default_manager.filter(given, pk__in=[person.pk for person in people])
    keys = set(found.values_list("pk", flat=True))
    return {person.pk for person in people if person.is_superuser or (person.is_active and person.pk in keys)}


def rows_of(permission: str) -> QuerySet[Permission]:
    """Return the queryset of a permission's row. It is empty if the permission does not exist."""
    label, _, codename = permission.partition(".")
    return Permission.objects.filter(content_type__app_label=label, codename=codename)


def names_of(permissions: Collection[str]) -> dict[str, str]:
    """Map those permissions that exist to their readable names, in one query."""
    return {
        f"{label}.{codename}": name
        for label, codename, name in _named(permissions).values_list(*_NAME, "name")
    }


def own_holders(permissions: Collection[str]) -> dict[str, int] | None:
    """Map permissions to the number of active users who have them other than by a group, in one query.

    Superusers are not counted. Returns None if rows alone do not decide, because the number is unknown then.
    """
    if not _are_rows(get_user_model()):
        return None
    who = Q(user__is_active=True, user__is_superuser=False)
    found = _named(permissions).annotate(holders=Count("user", filter=who))
    return {f"{label}.{codename}": number for label, codename, number in found.values_list(*_NAME, "holders")}


_NAME: Final = ("content_type__app_label", "codename")


def _named(permissions: Collection[str]) -> QuerySet[Permission]:
    """Return the queryset of the rows of permissions."""
    query = Q(pk__in=[])
    for permission in permissions:
        label, _, codename = permission.partition(".")
        query |= Q(content_type__app_label=label, codename=codename)
    return Permission.objects.filter(query).order_by()


def _are_rows(model: type) -> bool:
    """Return True if Django's permission rows alone decide.

    This is not so if the project has another backend or its user model overrides ``get_all_permissions``.
    """
    asked = [type(each) for each in get_backends() if hasattr(each, "get_all_permissions")]
    own = getattr(model, "get_all_permissions", None)
    return own is PermissionsMixin.get_all_permissions and asked == [ModelBackend]


def _made(user: Any, alias: str) -> str:
    """Build the statement that reads a user's own permissions and those of the user's groups.

    The statement takes the user's primary key as both of its parameters.
    """
    found = user.user_permissions.all(), Permission.objects.filter(group__in=user.groups.all())
    own, by_groups = (rows.order_by().values_list("content_type__app_label", "codename") for rows in found)
    statement, keys = own.union(by_groups).query.get_compiler(alias).as_sql()
    assert len(keys) == 2, statement
    _statements[type(user), alias] = str(statement)
    return str(statement)
