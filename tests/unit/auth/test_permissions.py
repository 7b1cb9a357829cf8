"""Permissions of a user equal those of Django, with fewer queries."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import Group, Permission

from mcp_app.auth.permissions import permissions_of

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]


class Everyone(ModelBackend):
    """A custom authentication backend of a project."""

    def get_all_permissions(self, user_obj: Any, obj: Any = None) -> set[str]:
        return {"shop.view_order"}


def people() -> list[Any]:
    """Create users with own permissions, with permissions by groups, with both, and without any."""
    rows = list(Permission.objects.order_by("pk")[:6])
    groups = [Group.objects.create(name=name) for name in ("Editors", "Readers", "Nobody")]
    groups[0].permissions.set(rows[:3])
    groups[1].permissions.set(rows[2:5])
    users = [get_user_model().objects.create_user(f"person{number}") for number in range(4)]
    users[0].user_permissions.set(rows[3:])
    users[1].groups.set(groups)
    users[2].user_permissions.set(rows[:2])
    users[2].groups.set(groups[1:])
    return users


def test_permissions_equal_those_of_django() -> None:
    found = {user.username: permissions_of(user) for user in people()}
    said = {user.username: user.get_all_permissions() for user in get_user_model().objects.all()}
    assert found == said
    assert [len(found[f"person{number}"]) for number in range(4)] == [3, 5, 5, 0]


def test_permissions_are_reread_with_one_query(django_assert_num_queries: Any) -> None:
    user = people()[0]
    before = permissions_of(user)
    user.user_permissions.clear()
    with django_assert_num_queries(1):
        assert permissions_of(user) == frozenset() != before


def test_inactive_user_has_no_permissions() -> None:
    user = people()[0]
    user.is_active = False
    assert permissions_of(user) == frozenset()


def test_custom_backend_defines_permissions(settings: Any) -> None:
    settings.AUTHENTICATION_BACKENDS = [f"{__name__}.Everyone"]
    assert permissions_of(people()[3]) == {"shop.view_order"}
