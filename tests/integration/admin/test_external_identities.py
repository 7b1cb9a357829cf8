"""External identities in the admin: users of identity providers, whatever text the provider sent."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from mcp_app.models import ExternalIdentity
from tests.integration.admin.addresses import page
from tests.samples.admin_seed import Seed

HOSTILE = "<script>alert(1)</script>\u202e"


@pytest.mark.parametrize("told_at", [None, 1_750_000_000, -(2**53) + 1, 2**53 - 1])
def test_identity_pages_show_the_user_and_escape_markup(
    root: Client, seeded: Seed, told_at: int | None
) -> None:
    row = ExternalIdentity.objects.create(
        user=seeded.viewer, issuer="https://id.example/realms/main", subject=HOSTILE, groups_at=told_at
    )
    for address in (page("externalidentity", "changelist"), page("externalidentity", "change", row.pk)):
        text = root.get(address).content.decode()
        assert "https://id.example/realms/main" in text
        assert seeded.viewer.get_username() in text
        assert "<script>alert(1)" not in text
        assert "\u202e" not in text
        assert ("never" in text) is (told_at is None)


def test_locked_out_user_is_marked(root: Client, seeded: Seed) -> None:
    get_user_model().objects.filter(pk=seeded.viewer.pk).update(is_active=False)
    row = ExternalIdentity.objects.create(user=seeded.viewer, issuer="https://id.example", subject="1")
    assert "locked out" in root.get(page("externalidentity", "change", row.pk)).content.decode()


def test_identities_are_found_by_user_subject_and_issuer(root: Client, seeded: Seed) -> None:
    for number in range(2):
        ExternalIdentity.objects.create(
            user=seeded.viewer, issuer="https://id.example", subject=f"subject-{number}"
        )
    for words, rows in (("subject-1", 1), ("viewer", 2), ("id.example", 2), ("nobody", 0)):
        text = root.get(page("externalidentity", "changelist"), {"q": words}).content.decode()
        assert len(set(re.findall(r"subject-\d", text)) - {words if not rows else ""}) == rows


def test_deleting_a_user_deletes_its_identities(root: Client, seeded: Seed) -> None:
    ExternalIdentity.objects.create(user=seeded.outsider, issuer="https://id.example", subject="1")
    answer = root.post(f"/admin/auth/user/{seeded.outsider.pk}/delete/", {"post": "yes"})
    assert answer.status_code == 302
    assert not ExternalIdentity.objects.exists()
