"""Reasons why a user cannot use an entry:

the same sentence on the entry's page, the user's page and the bench.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs

import pytest
from django.contrib.auth.models import Group, Permission
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from mcp_app.auth.api_keys import issue_api_key, replace_api_key
from mcp_app.auth.membership import grant_membership, membership_of
from mcp_app.models import ApiKey, Draft, Tool
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
    """Return the verdict, on which the three pages must agree."""
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


def test_every_page_gives_the_same_reason(root: Client, seeded: Seed) -> None:
    _, permission = editors(seeded.viewer)
    assert everywhere(root, seeded.echo, seeded.outsider) == (True, "everyone can use it")
    store(seeded.echo, permission=permission)
    assert everywhere(root, seeded.echo, seeded.viewer) == (True, "by the group Editors")
    lacks = "not a member of Editors"
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


def test_missing_unknown_permission_is_named(root: Client, seeded: Seed) -> None:
    store(seeded.echo, permission="nowhere.to_be_found")
    assert everywhere(root, seeded.echo, seeded.viewer) == (False, "no permission nowhere.to_be_found")


def test_preset_of_a_disabled_tool_is_available_to_no_user(root: Client, seeded: Seed) -> None:
    base = seeded.preset.preset_of
    assert base is not None
    store(base, enabled=False)
    reason = f"the tool that it is a preset of, {base.name}, is disabled"
    assert everywhere(root, seeded.preset, seeded.root) == (False, reason)


def test_draft_entry_is_reported_as_not_published(root: Client, seeded: Seed) -> None:
    Draft.objects.create(kind="prompt", key="soon", values={})
    assert sees(root, seeded.viewer, kind="prompt")["soon"] == (False, "not published: it is a draft")


@pytest.mark.parametrize(
    ("changed", "permission", "why"),
    [
        ({"scopes": BASIC}, "", (True, "everyone can use it")),
        ({"scopes": "mcp mcp:prompts"}, "", (False, "the key does not have the scope mcp:tools")),
        (
            {"scopes": BASIC},
            "mcp_app.view_message",
            (False, "mcp_app.view_message counts only for keys with the scope mcp:admin"),
        ),
        ({"scopes": "mcp:admin"}, "mcp_app.view_message", (True, "superusers have every permission")),
        ({"revoked_at": timezone.now()}, "", (False, "the key is revoked")),
        ({"expires_at": timezone.now() - timedelta(days=1)}, "", (False, "the key has expired")),
    ],
)
def test_key_limits_the_entries_of_its_user(
    changed: dict[str, Any], permission: str, why: tuple[bool, str], root: Client, seeded: Seed
) -> None:
    store(seeded.echo, permission=permission)
    type(seeded.key).objects.filter(pk=seeded.key.pk).update(**changed)
    assert sees(root, seeded.root, key=seeded.key.pk)["echo"] == why


def test_entries_of_a_user_filter_by_kind_name_and_access(root: Client, seeded: Seed) -> None:
    store(seeded.echo, permission="nowhere.to_be_found")
    hidden = sees(root, seeded.viewer, show="no")
    assert "echo" in hidden
    assert not any(can for can, _ in hidden.values())
    assert "echo" not in sees(root, seeded.viewer, show="yes")
    assert set(sees(root, seeded.viewer, q="ECH")) == {"echo"}
    assert set(sees(root, seeded.viewer, kind="prompt")) & {"echo"} == set()
    assert sees(root, seeded.viewer, kind="nonsense", show="nonsense", p="99").keys() >= {"echo"}


def test_person_page_query_count_is_constant(root: Client, seeded: Seed) -> None:
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
def test_page_of_unknown_user_returns_404(who: str, root: Client, seeded: Seed) -> None:
    assert root.get(reverse("mcp_person", args=[who])).status_code == 404


@pytest.mark.parametrize("key", ["0", "x", "9" * 30, "²"])
def test_key_of_another_user_returns_404(key: str, root: Client, seeded: Seed) -> None:
    address = reverse("mcp_person", args=[seeded.viewer.pk])
    assert root.get(address, {"key": key}).status_code == 404
    assert root.get(address, {"key": str(seeded.key.pk)}).status_code == 404


def test_person_page_marks_replaced_keys_and_lists_active_keys_first(root: Client, seeded: Seed) -> None:
    old, _ = issue_api_key(user=seeded.outsider, name="laptop")
    mid, _, _ = replace_api_key(key=old, old_key_ends="24h")
    new, _, _ = replace_api_key(key=mid, old_key_ends="now")
    ends = f"{timezone.localtime(old.expires_at):%Y-%m-%d %H:%M}"
    gone, _ = issue_api_key(user=seeded.outsider, name="gone")
    ApiKey.objects.filter(pk=gone.pk).update(expires_at=timezone.now() - timedelta(minutes=1))
    found = root.get(reverse("mcp_person", args=[seeded.outsider.pk])).context["keys"]
    assert [(each.title, parse_qs(each.url[1:])["key"][0]) for each in found[1:]] == [
        ("Key laptop", str(new.pk)),
        (f"Key laptop (expires {ends})", str(old.pk)),
        ("Key gone (expired)", str(gone.pk)),
        ("Key laptop (revoked)", str(mid.pk)),
    ]


def test_person_page_requires_user_and_entry_permissions(client_of: ClientOf, seeded: Seed) -> None:
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


def test_callers_and_key_pages_link_the_person_page(root: Client, seeded: Seed) -> None:
    address = reverse("mcp_person", args=[seeded.viewer.pk])
    assert f'href="{address}"' in root.get(page("tool", "callers", seeded.echo.pk)).content.decode()
    key = root.get(page("apikey", "change", seeded.key.pk)).content.decode()
    assert f'{reverse("mcp_person", args=[seeded.root.pk])}?key={seeded.key.pk}"' in key


def test_bench_hides_groups_without_the_view_user_permission(client_of: ClientOf, seeded: Seed) -> None:
    _, permission = editors(seeded.root)
    store(seeded.echo, permission=permission)
    needed = Permission.objects.filter(codename__in=["view_tool", "try_entries"])
    seeded.viewer.user_permissions.set(needed)
    told = client_of("viewer").post(page("tool", "try_token", seeded.echo.pk), {"user": ""}).json()
    assert told["why"] == f"viewer cannot use it: no permission {permission}."


def test_person_page_escapes_entry_and_group_names(root: Client, seeded: Seed) -> None:
    group = Group.objects.create(name="<b>bold</b>\u202e")
    grant_membership(membership_of(group))
    store(seeded.echo, permission=membership_of(group))
    for kind in ("tool", "prompt", "resource"):
        text = root.get(reverse("mcp_person", args=[seeded.outsider.pk]), {"kind": kind}).content.decode()
        assert not [raw for raw in (*RAW_MARKUP, "<b>bold", "\u202e") if raw in text]
