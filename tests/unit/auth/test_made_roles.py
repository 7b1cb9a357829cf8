"""The roles that every installation starts with."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group, Permission

from mcp_app.auth.roles import ROLES, make_roles

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]


def codenames(name: str) -> set[str]:
    return set(Group.objects.get(name=name).permissions.values_list("codename", flat=True))


@pytest.mark.parametrize("name", ROLES)
def test_role_has_exactly_its_existing_permissions(name: str) -> None:
    make_roles()
    assert codenames(name) == ROLES[name]


def test_each_role_includes_permissions_of_the_previous_role() -> None:
    auditor, operator, administrator = ROLES.values()
    assert auditor < operator < administrator


def test_auditor_has_view_permissions_only() -> None:
    assert {name.partition("_")[0] for name in ROLES["MCP auditor"]} == {"view"}


def test_no_role_may_change_users_or_groups() -> None:
    make_roles()
    given = Permission.objects.filter(group__name__in=ROLES)
    assert set(given.values_list("content_type__app_label", flat=True)) == {"mcp_app", "mcp_oauth"}


def test_permissions_removed_from_a_group_are_not_restored() -> None:
    assert make_roles() == list(ROLES)
    Group.objects.get(name="MCP operator").permissions.clear()
    Group.objects.get(name="MCP auditor").delete()
    assert make_roles() == ["MCP auditor"]
    assert codenames("MCP operator") == set()
    assert codenames("MCP auditor") == ROLES["MCP auditor"]


def test_existing_group_receives_permissions_added_by_an_upgrade() -> None:
    """An upgrade adds permissions that no group had; otherwise groups stay unchanged."""
    later = Permission.objects.filter(codename__in=["view_client", "run_doctor"])
    kept = [(each.content_type, each.codename, each.name) for each in later]
    later.delete()
    make_roles()
    operator = Group.objects.get(name="MCP operator")
    operator.permissions.remove(Permission.objects.get(codename="decide_call"))
    for content_type, codename, name in kept:
        Permission.objects.create(content_type=content_type, codename=codename, name=name)
    assert make_roles() == list(ROLES)
    assert codenames("MCP operator") == ROLES["MCP operator"] - {"decide_call"}
    assert codenames("MCP auditor") == ROLES["MCP auditor"]
    assert make_roles() == []
