"""Groups: members are added and removed on the group's page by users who may change users."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.test import Client

from mcp_app.admin.base import HAS_UNFOLD
from mcp_app.admin.people import MOST_LISTED
from tests.integration.admin.conftest import ClientOf
from tests.samples.admin_seed import Seed

pytestmark = [
    pytest.mark.postgres,
    # Without the skin, the pages of users and groups are Django's own.
    pytest.mark.skipif(not HAS_UNFOLD, reason="Django's own page of a group has no members"),
]
LIST = "/admin/auth/group/"


def _address(group: Group) -> str:
    return f"{LIST}{group.pk}/change/"


def _save(client: Client, group: Group, *members: Any, shown: str = "") -> Any:
    data = {"name": group.name, "members": [user.pk for user in members], "members-shown": shown}
    return client.post(_address(group), data, follow=True)


def test_group_page_adds_removes_and_counts_members(root: Client, seeded: Seed) -> None:
    editors = Group.objects.create(name="Editors")
    _save(root, editors, seeded.viewer, seeded.outsider)
    assert set(editors.user_set.all()) == {seeded.viewer, seeded.outsider}
    text = root.get(_address(editors)).content.decode()
    assert f'href="/admin/auth/user/?groups__id__exact={editors.pk}">2 members</a>' in text
    listed = root.get(LIST).context["cl"].result_list
    assert {group.name: group.members for group in listed}["Editors"] == 2
    _save(root, editors, seeded.viewer, shown=f"{seeded.viewer.pk} {seeded.outsider.pk}")
    assert list(editors.user_set.all()) == [seeded.viewer]


def test_new_group_is_created_with_members(root: Client, seeded: Seed) -> None:
    root.post(f"{LIST}add/", {"name": "Support", "members": [seeded.viewer.pk], "members-shown": ""})
    assert list(Group.objects.get(name="Support").user_set.all()) == [seeded.viewer]


def test_member_field_autocompletes_users(root: Client, seeded: Seed) -> None:
    widget = root.get(f"{LIST}add/").context["adminform"].form.fields["members"].widget
    model, field = widget.field.model._meta, widget.field.name
    query = {
        "app_label": model.app_label,
        "model_name": model.model_name,
        "field_name": field,
        "term": "VIEW",
    }
    found = root.get(widget.get_url(), query).json()["results"]
    assert [each["text"] for each in found] == ["viewer"]


def test_concurrently_added_member_is_kept(root: Client, seeded: Seed) -> None:
    editors = Group.objects.create(name="Editors")
    editors.user_set.add(seeded.viewer, seeded.root)
    _save(root, editors, seeded.outsider, shown=str(seeded.viewer.pk))
    assert set(editors.user_set.all()) == {seeded.root, seeded.outsider}


def test_large_group_form_only_adds_members(root: Client, seeded: Seed) -> None:
    users: Any = get_user_model()
    editors = Group.objects.create(name="Editors")
    editors.user_set.add(*users.objects.bulk_create(users(username=f"n{n}") for n in range(MOST_LISTED + 1)))
    form = root.get(_address(editors)).context["adminform"].form
    assert (form["members"].label, form["members"].value()) == ("Add members", None)
    _save(root, editors, seeded.viewer)
    assert editors.user_set.count() == MOST_LISTED + 2


def test_member_field_requires_the_change_user_permission(client_of: ClientOf, seeded: Seed) -> None:
    editors = Group.objects.create(name="Editors")
    editors.user_set.add(seeded.viewer)
    seeded.outsider.user_permissions.set(
        Permission.objects.filter(codename__in=["view_group", "change_group"])
    )
    client = client_of("outsider")
    assert "members-shown" not in client.get(_address(editors)).content.decode()
    _save(client, editors, seeded.outsider, shown=str(seeded.viewer.pk))
    assert list(editors.user_set.all()) == [seeded.viewer]


@pytest.mark.parametrize("sent", ["x", "9" * 30, "\0", ""])
@pytest.mark.parametrize("shown", ["", "x \0", "9" * 30])
def test_invalid_member_is_refused_beside_the_field(
    sent: str, shown: str, root: Client, seeded: Seed
) -> None:
    group = Group.objects.create(name="hostile")
    address = f"/admin/auth/group/{group.pk}/change/"
    answer = root.post(address, {"name": "hostile", "members": [sent], "members-shown": shown})
    assert answer.status_code == 200
    assert "members" in answer.context["adminform"].form.errors
    assert not group.user_set.exists()
