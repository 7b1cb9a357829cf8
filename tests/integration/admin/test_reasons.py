"""Why somebody cannot use an entry: the same sentence on the entry's page, the person's and in the bench."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from mcp_app.auth.membership import grant_membership, membership_of
from mcp_app.models import Draft, Tool
from tests.integration.admin.addresses import page
from tests.integration.admin.conftest import ClientOf
from tests.samples.admin_seed import RAW_MARKUP, Seed

pytestmark = pytest.mark.postgres
BASIC = "mcp mcp:tools mcp:resources mcp:prompts"


def sees(client: Client, user: Any, **asked: Any) -> dict[str, tuple[bool, str]]:
    answer = client.get(reverse("mcp_person", args=[user.pk]), asked)
    assert answer.status_code == 200
    return {row.name: (row.can, row.why) for row in answer.context["page"]}


def everywhere(client: Client, tool: Tool, user: Any) -> tuple[bool, str]:
    """The verdict, which the three pages must agree on."""
    found = sees(client, user, q=tool.name)[tool.name]
    callers = client.get(page("tool", "callers", tool.pk), {"q": user.get_username()}).context["callers"]
    assert [(each.can, each.why) for each in callers if each.name == user.get_username()] == [found]
    if user.is_active:
        told = client.post(page("tool", "try_token", tool.pk), {"user": user.get_username()}).json()
        assert told["why"] == ("" if found[0] else f"{user.get_username()} cannot use it: {found[1]}.")
    return found


def store(tool: Tool, **values: Any) -> None:
    Tool.objects.filter(pk=tool.pk).update(**values)
    tool.refresh_from_db()


def editors(*members: Any) -> tuple[Group, str]:
    group = Group.objects.create(name="Editors")
    group.user_set.add(*members)
    grant_membership(membership_of(group))
    return group, membership_of(group)


def test_each_reason_is_the_same_sentence_on_every_page(root: Client, seeded: Seed) -> None:
    _, permission = editors(seeded.viewer)
    assert everywhere(root, seeded.echo, seeded.outsider) == (True, "every caller can")
    store(seeded.echo, permission=permission)
    assert everywhere(root, seeded.echo, seeded.viewer) == (True, "by the group Editors")
    lacks = "is not a member of Editors"
    assert everywhere(root, seeded.echo, seeded.outsider) == (False, lacks)
    assert everywhere(root, seeded.echo, seeded.root) == (True, "superusers have every permission")
    own = Permission.objects.get(codename=permission.partition(".")[2])
    seeded.outsider.user_permissions.add(own)
    assert everywhere(root, seeded.echo, seeded.outsider) == (True, "own permission")
    seeded.viewer.is_active = False
    seeded.viewer.save()
    assert everywhere(root, seeded.echo, seeded.viewer) == (False, "the account is not active")
    store(seeded.echo, enabled=False)
    assert everywhere(root, seeded.echo, seeded.root) == (False, "it is disabled")
    store(seeded.echo, missing=True)
    reason = "the code that defined it is not installed"
    assert everywhere(root, seeded.echo, seeded.root) == (False, reason)


def test_a_permission_that_nobody_has_is_named_alone(root: Client, seeded: Seed) -> None:
    store(seeded.echo, permission="nowhere.to_be_found")
    assert everywhere(root, seeded.echo, seeded.viewer) == (False, "lacks nowhere.to_be_found")


def test_a_preset_of_a_disabled_tool_is_offered_to_nobody(root: Client, seeded: Seed) -> None:
    base = seeded.preset.preset_of
    assert base is not None
    store(base, enabled=False)
    reason = f"the tool that it is a preset of, {base.name}, is disabled"
    assert everywhere(root, seeded.preset, seeded.root) == (False, reason)


def test_what_is_no_entry_yet_is_not_published(root: Client, seeded: Seed) -> None:
    Draft.objects.create(kind="prompt", key="soon", values={})
    assert sees(root, seeded.viewer, kind="prompt")["soon"] == (False, "not published: it is a draft")


@pytest.mark.parametrize(
    ("changed", "permission", "why"),
    [
        ({"scopes": BASIC}, "", (True, "every caller can")),
        ({"scopes": "mcp mcp:prompts"}, "", (False, "the key lacks the scope mcp:tools")),
        (
            {"scopes": BASIC},
            "mcp_app.view_message",
            (False, "the key lacks the scope mcp:admin, without which mcp_app.view_message does not count"),
        ),
        ({"scopes": "mcp:admin"}, "mcp_app.view_message", (True, "superusers have every permission")),
        ({"revoked_at": timezone.now()}, "", (False, "the key is revoked")),
        ({"expires_at": timezone.now() - timedelta(days=1)}, "", (False, "the key has expired")),
    ],
)
def test_a_key_sees_less_than_its_person(
    changed: dict[str, Any], permission: str, why: tuple[bool, str], root: Client, seeded: Seed
) -> None:
    store(seeded.echo, permission=permission)
    type(seeded.key).objects.filter(pk=seeded.key.pk).update(**changed)
    assert sees(root, seeded.root, key=seeded.key.pk)["echo"] == why


def test_the_page_is_narrowed_by_kind_by_name_and_to_what_is_not_seen(root: Client, seeded: Seed) -> None:
    store(seeded.echo, permission="nowhere.to_be_found")
    hidden = sees(root, seeded.viewer, show="no")
    assert "echo" in hidden
    assert not any(can for can, _ in hidden.values())
    assert "echo" not in sees(root, seeded.viewer, show="yes")
    assert set(sees(root, seeded.viewer, q="ECH")) == {"echo"}
    assert set(sees(root, seeded.viewer, kind="prompt")) & {"echo"} == set()
    assert sees(root, seeded.viewer, kind="nonsense", show="nonsense", p="99").keys() >= {"echo"}


def test_the_database_is_asked_as_often_for_many_entries_as_for_few(root: Client, seeded: Seed) -> None:
    _, permission = editors(seeded.viewer)

    def queries() -> int:
        with CaptureQueriesContext(connection) as asked:
            sees(root, seeded.viewer)
        return len(asked)

    queries()
    before = queries()
    for number in range(60):
        Tool.objects.create(name=f"more_{number}", permission=permission, preset_of=seeded.echo)
    assert queries() == before


@pytest.mark.parametrize("who", ["0", "nobody", "9" * 40, "-1"])
def test_the_page_of_nobody_is_not_there(who: str, root: Client, seeded: Seed) -> None:
    assert root.get(reverse("mcp_person", args=[who])).status_code == 404


@pytest.mark.parametrize("key", ["0", "x", "9" * 30, "²"])
def test_a_key_that_is_not_theirs_is_not_there(key: str, root: Client, seeded: Seed) -> None:
    address = reverse("mcp_person", args=[seeded.viewer.pk])
    assert root.get(address, {"key": key}).status_code == 404
    assert root.get(address, {"key": str(seeded.key.pk)}).status_code == 404


def test_only_who_may_see_people_and_some_kind_of_entry_sees_it(client_of: ClientOf, seeded: Seed) -> None:
    viewer, address = client_of("viewer"), reverse("mcp_person", args=[seeded.root.pk])
    seeded.viewer.user_permissions.set(Permission.objects.filter(codename__in=["view_user"]))
    assert viewer.get(address).status_code == 403
    seeded.viewer.user_permissions.set(Permission.objects.filter(codename__in=["view_prompt"]))
    assert viewer.get(address).status_code == 403
    both = Permission.objects.filter(codename__in=["view_user", "view_prompt"])
    seeded.viewer.user_permissions.set(both)
    answer = viewer.get(address, {"kind": "tool"})
    assert [each.title for each in answer.context["kinds"]] == ["Prompts"]
    assert answer.context["keys"] == []
    assert viewer.get(address, {"key": str(seeded.key.pk)}).status_code == 403


def test_links_lead_there_from_the_entry_the_person_and_the_key(root: Client, seeded: Seed) -> None:
    address = reverse("mcp_person", args=[seeded.viewer.pk])
    assert f'href="{address}"' in root.get(page("tool", "callers", seeded.echo.pk)).content.decode()
    key = root.get(page("apikey", "change", seeded.key.pk)).content.decode()
    assert f'{reverse("mcp_person", args=[seeded.root.pk])}?key={seeded.key.pk}"' in key


def test_whoever_may_not_see_people_is_not_told_of_groups_in_the_bench(
    client_of: ClientOf, seeded: Seed
) -> None:
    _, permission = editors(seeded.root)
    store(seeded.echo, permission=permission)
    needed = Permission.objects.filter(codename__in=["view_tool", "try_entries"])
    seeded.viewer.user_permissions.set(needed)
    told = client_of("viewer").post(page("tool", "try_token", seeded.echo.pk), {"user": ""}).json()
    assert told["why"] == f"viewer cannot use it: lacks {permission}."


def test_names_of_entries_and_groups_are_shown_as_text(root: Client, seeded: Seed) -> None:
    group = Group.objects.create(name="<b>bold</b>\u202e")
    grant_membership(membership_of(group))
    store(seeded.echo, permission=membership_of(group))
    for kind in ("tool", "prompt", "resource"):
        text = root.get(reverse("mcp_person", args=[seeded.outsider.pk]), {"kind": kind}).content.decode()
        assert not [raw for raw in (*RAW_MARKUP, "<b>bold", "\u202e") if raw in text]
