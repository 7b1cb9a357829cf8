"""Pages that confirm a deletion."""

from __future__ import annotations

import pytest
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import Group
from django.test import Client
from django.urls import reverse

from mcp_app.admin.base import HAS_UNFOLD
from tests.samples.admin_seed import Seed, undecided_call

SURE = '<input type="hidden" name="post" value="yes">'


def test_deletion_of_an_object_is_confirmed(root: Client, seeded: Seed) -> None:
    address = reverse("admin:mcp_app_prompt_delete", args=[seeded.own_prompt.pk])
    page = root.get(address).content.decode()
    assert SURE in page
    assert 'id="content"' in page
    assert 'id="mcp-restorable"' in page
    assert reverse("admin:mcp_app_prompt_deleted") in page
    assert ">Delete prompt</button>" in page
    assert "take me back" not in page


def test_deletion_of_a_tool_counts_the_calls_that_it_refuses(root: Client, seeded: Seed) -> None:
    address = reverse("admin:mcp_app_tool_delete", args=[seeded.preset.pk])
    assert "for approval" not in root.get(address).content.decode()
    for number in range(2):
        undecided_call(seeded.session.pk, 40 + number, tool=seeded.preset.name)
        page = " ".join(root.get(address).content.decode().split())
        assert ("1 call that waits", "2 calls that wait")[number] + " for approval" in page


@pytest.mark.skipif(not HAS_UNFOLD, reason="Django's own page of a user is not ours")
def test_second_factors_of_a_deleted_user_have_their_name(root: Client, seeded: Seed) -> None:
    """The library names them "Authenticators"."""
    for kind in Authenticator.Type.TOTP, Authenticator.Type.RECOVERY_CODES:
        Authenticator.objects.create(user=seeded.viewer, type=kind, data={})
    page = root.get(reverse("admin:auth_user_delete", args=[seeded.viewer.pk])).content.decode()
    assert "second factors: 2" in page.lower()
    assert page.count("Second factor: ") == 2
    assert "uthenticators" not in page


def test_deletion_of_selected_objects_is_confirmed(root: Client, seeded: Seed) -> None:
    chosen = [Group.objects.create(name=name).pk for name in ("a", "b")]
    told = {"action": "delete_selected", "_selected_action": chosen}
    page = root.post(reverse("admin:auth_group_changelist"), told).content.decode()
    assert SURE in page
    assert 'id="content"' in page


def test_deletion_of_selected_entries_is_confirmed_in_words(root: Client, seeded: Seed) -> None:
    told = {"action": "delete_selected", "_selected_action": [seeded.own_prompt.pk]}
    page = root.post(reverse("admin:mcp_app_prompt_changelist"), told).content.decode()
    assert SURE in page
    assert ">Delete prompt" in page
    assert "take me back" not in page
