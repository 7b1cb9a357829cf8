"""Groups: members are added and removed on the group's page by users who may change users."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.test import Client

from mcp_app.admin.base import HAS_UNFOLD
from mcp_app.admin.people import MOST_LISTED
from mcp_app.auth.membership import membership_of
from mcp_app.catalogue.changes.services import set_permissions
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


def test_group_page_shows_the_tools_offered_to_members(root: Client, seeded: Seed) -> None:
    support, others = (Group.objects.create(name=name) for name in ("Support", "Others"))
    set_permissions(wanted=[(seeded.echo, membership_of(support))], actor=None)
    set_permissions(wanted=[(seeded.preset, "auth.view_group")], actor=None)
    support.permissions.add(Permission.objects.get(codename="view_group"))
    offer = root.get(_address(support)).context["offer"]
    assert {(each.name, each.permission) for each in offer.restricted} == {
        ("echo", "members of Support"),
        (seeded.preset.name, "users with the permission “Can view group” (members of Support)"),
    }
    assert root.get(_address(others)).context["offer"].restricted == []


def test_user_page_shows_offered_tools_with_the_reason(root: Client, seeded: Seed) -> None:
    support = Group.objects.create(name="Support")
    set_permissions(wanted=[(seeded.echo, membership_of(support))], actor=None)
    address = f"/admin/auth/user/{seeded.outsider.pk}/change/"
    assert root.get(address).context["offer"].restricted == []
    support.user_set.add(seeded.outsider)
    found = {each.name: each.why for each in root.get(address).context["offer"].restricted}
    # The preset of the tool has the permission of the tool.
    assert found == dict.fromkeys(("echo", seeded.preset.name), "by the group Support")


def test_offered_tools_require_the_permission_to_view_people(client_of: ClientOf, seeded: Seed) -> None:
    support = Group.objects.create(name="Support")
    names = ("view_group", "view_tool")
    seeded.outsider.user_permissions.add(*Permission.objects.filter(codename__in=names))
    assert "offer" not in client_of("outsider").get(_address(support)).context


def test_permissions_of_this_server_come_first_in_a_folded_list(root: Client, seeded: Seed) -> None:
    group = Group.objects.create(name="Support")
    for address in (_address(group), f"/admin/auth/user/{seeded.outsider.pk}/change/"):
        form = root.get(address).context["adminform"]
        *_, (title, options) = form.fieldsets
        (field,) = options["fields"]
        assert (title, options["classes"]) == ("All permissions", ("collapse",))
        labels = [str(label) for _, label in form.form.fields[field].choices]
        number = sum(label.startswith("Model Context Protocol: ") for label in labels)
        assert 0 < number < len(labels)
        assert all(label.startswith("Model Context Protocol: ") for label in labels[:number])


def test_deletion_of_a_group_names_the_entries_limited_to_it(root: Client, seeded: Seed) -> None:
    editors, others = (Group.objects.create(name=name) for name in ("Editors", "Others"))
    set_permissions(wanted=[(seeded.echo, membership_of(editors))], actor=None)
    pages = {group: root.get(f"{LIST}{group.pk}/delete/") for group in (editors, others)}
    found = {group: answer.context["deleted_objects"] for group, answer in pages.items()}
    line = "1 tool is limited to these members. After the deletion, only superusers can use it."
    assert (line in found[editors], line in found[others]) == (True, False)
