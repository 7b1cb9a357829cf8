"""The list action "Change who can use it…": one revision after a confirmation, or drafts to be published."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.test import Client

from mcp_app.admin.entries.permission_action import CONFIRMED, UNCHOSEN
from mcp_app.auth.membership import membership_of
from mcp_app.catalogue.access import permission_of
from mcp_app.catalogue.changes.services import PERMISSION_SET
from mcp_app.models import AuditEvent, CatalogueChange, Draft, Tool
from tests.integration.admin.addresses import page
from tests.integration.admin.conftest import ClientOf
from tests.integration.admin.test_undo import offered, press_undo, said
from tests.samples.admin_seed import Seed

pytestmark = pytest.mark.postgres
VIEW_GROUP = "auth.view_group"


def ask(client: Client, *tools: Tool, **more: str) -> Any:
    chosen = {"action": "set_permission", "_selected_action": [tool.pk for tool in tools], **more}
    return client.post(page("tool", "changelist"), chosen, follow=True)


def set_permission(client: Client, permission: str, *tools: Tool, why: str = "") -> Any:
    return ask(client, *tools, **{CONFIRMED: "1", "permission": permission, "why": why})


def editor(client_of: ClientOf, seeded: Seed) -> Client:
    """Return a client of a user who may change tools but not publish."""
    seeded.viewer.user_permissions.add(Permission.objects.get(codename="change_tool"))
    return client_of("viewer")


def permissions(*tools: Tool) -> list[str]:
    return [Tool.objects.get(pk=tool.pk).permission for tool in tools]


def test_action_changes_nothing_before_a_choice(root: Client, seeded: Seed) -> None:
    tools = seeded.echo, seeded.preset
    asked = ask(root, *tools)
    assert [row[0] for row in asked.context["rows"]] == [tool.pk for tool in tools]
    assert asked.context["form"]["permission"].value() == UNCHOSEN
    again = set_permission(root, UNCHOSEN, *tools)
    assert again.context["form"].errors.keys() == {"permission"}
    assert permissions(*tools) == ["", ""]


def test_permission_of_several_tools_is_one_revision_with_an_undo(root: Client, seeded: Seed) -> None:
    tools = seeded.echo, seeded.preset
    answer = set_permission(root, VIEW_GROUP, *tools, why="Interns")
    assert permissions(*tools) == [VIEW_GROUP, VIEW_GROUP]
    changes = CatalogueChange.objects.filter(action=PERMISSION_SET)
    assert (changes.count(), len({each.revision for each in changes})) == (2, 1)
    assert {(each.why, each.actor) for each in changes} == {("Interns", seeded.root)}
    assert AuditEvent.objects.filter(action=f"catalogue.{PERMISSION_SET}").count() == 2
    answer = press_undo(root, offered(answer))
    assert "Undone. Who can use 2 tools is as before." in said(answer)
    assert permissions(*tools) == ["", ""]


def test_undo_of_a_permission_keeps_later_changes(root: Client, seeded: Seed) -> None:
    offer = offered(set_permission(root, VIEW_GROUP, seeded.echo))
    set_permission(root, "auth.view_user", seeded.echo)
    assert "Nothing was undone." in said(press_undo(root, offer))
    assert permissions(seeded.echo) == ["auth.view_user"]


def test_permission_of_a_group_is_granted_to_its_members(root: Client, seeded: Seed) -> None:
    support = Group.objects.create(name="Support")
    support.user_set.add(seeded.outsider)
    set_permission(root, membership_of(support), seeded.echo)
    assert permission_of(Tool.objects.get(name="echo")) == membership_of(support)
    assert seeded.outsider.has_perm(membership_of(support))


def test_user_who_may_not_publish_saves_drafts(client_of: ClientOf, seeded: Seed) -> None:
    client, tools = editor(client_of, seeded), (seeded.echo, seeded.preset)
    set_permission(client, VIEW_GROUP, seeded.echo)
    set_permission(client, "auth.view_user", *tools)
    assert permissions(*tools) == ["", ""]
    drafts = {draft.key: draft.values for draft in Draft.objects.all()}
    assert {key: values["permission"] for key, values in drafts.items()} == {
        "echo": "auth.view_user", seeded.preset.name: "auth.view_user",
    }  # fmt: skip


@pytest.mark.parametrize("permission", ["no_such.permission", "auth.view_group' --", "9999"])
def test_unknown_permission_is_refused(permission: str, root: Client, seeded: Seed) -> None:
    answer = set_permission(root, permission, seeded.echo)
    assert answer.context["form"].errors.keys() == {"permission"}
    assert permissions(seeded.echo) == [""]


def test_action_requires_the_permission_to_change(viewer: Client, seeded: Seed) -> None:
    set_permission(viewer, VIEW_GROUP, seeded.echo)
    assert permissions(seeded.echo) == [""]
    assert not Draft.objects.exists()
