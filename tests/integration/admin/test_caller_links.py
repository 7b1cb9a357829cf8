"""Names of callers link to their pages, and pages of traffic have the button that revokes the key."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from mcp_app.models import ApiKey, Call, Message, Session
from tests.integration.admin.addresses import page
from tests.integration.admin.conftest import ClientOf
from tests.samples.admin_seed import Seed

pytestmark = pytest.mark.postgres
LISTS = ("session list", "call list")
PAGES = ("session", "call", "message")


@pytest.fixture
def by_key(seeded: Seed) -> dict[str, str]:
    """Attribute a session, a call and a message to an API key. Return the addresses that show them."""
    principal = f"user:{seeded.root.pk}/key:{seeded.key.pk}"
    for model, pk in ((Session, seeded.session.pk), (Call, seeded.call.pk), (Message, seeded.message.pk)):
        model.objects.filter(pk=pk).update(principal=principal)
    return {
        "session list": page("session", "changelist"),
        "call list": page("call", "changelist"),
        "session": page("session", "change", seeded.session.pk),
        "call": page("call", "change", seeded.call.pk),
        "message": page("message", "change", seeded.message.pk),
    }


def _links(client: Client, address: str) -> set[str]:
    return set(re.findall(r'href="([^"]+)"', client.get(address).content.decode()))


@pytest.mark.parametrize("shown", [*LISTS, *PAGES])
def test_name_of_a_caller_links_to_its_user_and_key(
    shown: str, root: Client, seeded: Seed, by_key: dict[str, str]
) -> None:
    found = _links(root, by_key[shown])
    assert f"/admin/auth/user/{seeded.root.pk}/change/" in found
    assert page("apikey", "change", seeded.key.pk) in found


@pytest.mark.parametrize("shown", [*LISTS, *PAGES])
def test_name_of_a_caller_has_no_link_that_would_be_denied(
    shown: str, viewer: Client, seeded: Seed, by_key: dict[str, str]
) -> None:
    kept = Permission.objects.filter(codename__in=("view_session", "view_call", "view_message"))
    seeded.viewer.user_permissions.set(kept)
    found = _links(viewer, by_key[shown])
    assert not any("/auth/user/" in link or "/apikey/" in link for link in found)


@pytest.mark.parametrize("shown", PAGES)
def test_page_links_to_everything_the_caller_did(
    shown: str, root: Client, seeded: Seed, by_key: dict[str, str]
) -> None:
    for title, url in root.get(by_key[shown]).context["caller"].pages:
        assert root.get(url).status_code == 200, title


@pytest.mark.parametrize("shown", PAGES)
def test_key_is_revoked_from_the_page_of_its_traffic(
    shown: str, root: Client, seeded: Seed, by_key: dict[str, str]
) -> None:
    button = root.get(by_key[shown]).context["caller"].revoking
    answer = root.post(f"{button['url']}?from_page=1")
    assert answer["Location"] == page("apikey", "change", seeded.key.pk)
    assert ApiKey.objects.get(pk=seeded.key.pk).revoked_at is not None
    assert root.get(by_key[shown]).context["caller"].revoking is None


def test_revoke_button_requires_the_permission_to_change_keys(
    client_of: ClientOf, seeded: Seed, by_key: dict[str, str]
) -> None:
    seeded.viewer.user_permissions.set(
        Permission.objects.filter(codename__in=("view_session", "view_apikey"))
    )
    assert client_of("viewer").get(by_key["session"]).context["caller"].revoking is None
