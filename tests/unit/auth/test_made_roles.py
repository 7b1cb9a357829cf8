"""The roles that every installation starts with."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group, Permission

from mcp_app.auth.roles import ROLES, make_roles

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]


def codenames(name: str) -> set[str]:
    return set(Group.objects.get(name=name).permissions.values_list("codename", flat=True))


@pytest.mark.parametrize("name", ROLES)
def test_every_permission_of_a_role_exists_and_is_given(name: str) -> None:
    make_roles()
    assert codenames(name) == ROLES[name]


def test_each_role_can_do_what_the_one_before_it_can() -> None:
    auditor, operator, administrator = ROLES.values()
    assert auditor < operator < administrator


def test_an_auditor_can_only_look() -> None:
    assert {name.partition("_")[0] for name in ROLES["MCP auditor"]} == {"view"}


def test_no_role_can_alter_users_or_groups() -> None:
    make_roles()
    given = Permission.objects.filter(group__name__in=ROLES)
    assert set(given.values_list("content_type__app_label", flat=True)) == {"mcp_app", "mcp_oauth"}


def test_what_an_installation_took_from_a_group_stays_away() -> None:
    assert make_roles() == list(ROLES)
    Group.objects.get(name="MCP operator").permissions.clear()
    Group.objects.get(name="MCP auditor").delete()
    assert make_roles() == ["MCP auditor"]
    assert codenames("MCP operator") == set()
    assert codenames("MCP auditor") == ROLES["MCP auditor"]


def test_group_that_exists_is_given_permissions_that_are_new() -> None:
    """An upgrade brought permissions that no group had: one that exists was never altered."""
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
