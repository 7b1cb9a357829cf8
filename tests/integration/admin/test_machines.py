"""Machine clients in the admin: created in one step with their service user (AUTH-46, AUTH-51)."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.test import Client as Browser

from mcp_app.admin.base import HAS_UNFOLD
from mcp_app.auth.principal_names import principal_names
from mcp_app.models import AuditEvent
from mcp_app.oauth.machines.registration import Machine, create_machine
from mcp_app.oauth.models import Client
from tests.integration.admin.conftest import ClientOf
from tests.samples.admin_seed import Seed
from tests.unit.oauth.test_machines import P256, pem

pytestmark = [pytest.mark.django_db]

ADD = "/admin/mcp_oauth/client/add/"
SAID: dict[str, Any] = {
    "name": "Nightly job",
    "who": "machine",
    "token_auth_method": "client_secret_basic",
    "scopes": ["mcp", "mcp:tools"],
}


@pytest.mark.requirement("AUTH-46", "AUTH-51")
def test_machine_form_creates_client_service_user_and_secret(root: Browser, seeded: Seed) -> None:
    page = root.post(ADD, SAID)
    text = page.content.decode()
    found = re.search(r'id="mcp-secret"[^>]*>(mcpcs_[\w-]+)<', text)
    assert found, text[-3000:]
    client = Client.objects.get(name="Nightly job")
    user: Any = client.service_user
    assert (str(user), user.is_staff, user.groups.count()) == ("machine-nightly-job", False, 0)
    assert client.scope == "mcp mcp:tools"
    assert "no-store" in page["Cache-Control"]
    assert f"-u {client.client_id}:SECRET" in text
    assert found[1] not in str(Client.objects.values())
    event = AuditEvent.objects.get(action="oauth.machine_enter")
    assert (event.actor, event.detail["user"]) == (seeded.root, "machine-nightly-job")
    shown = root.get(f"/admin/mcp_oauth/client/{client.pk}/change/").content.decode()
    for words in ("machine-nightly-job", "mcp mcp:tools", "machine"):
        assert words in shown
    assert found[1] not in shown


def test_machine_with_signing_key_has_no_secret(root: Browser, seeded: Seed) -> None:
    said = {**SAID, "token_auth_method": "private_key_jwt", "jwks": pem(P256)}
    text = root.post(ADD, said).content.decode()
    assert "mcpcs_" not in text
    assert "client_assertion=JWT" in text
    client = Client.objects.get(name="Nightly job")
    assert client.client_secret == ""
    assert "P-256" in root.get(f"/admin/mcp_oauth/client/{client.pk}/change/").content.decode()


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"name": ""}, "name"),
        ({"scopes": []}, "scopes"),
        ({"token_auth_method": "none"}, "token_auth_method"),
        ({"token_auth_method": "private_key_jwt"}, "jwks"),
        ({"token_auth_method": "private_key_jwt", "jwks": "no key"}, "jwks"),
        ({"token_auth_method": "private_key_jwt", "jwks_uri": "http://a.example/"}, "jwks_uri"),
        ({"jwks": pem(P256)}, "jwks"),
        ({"who": "people", "redirect_uris": ""}, "redirect_uris"),
        (
            {"who": "people", "redirect_uris": "https://a.example/", "token_auth_method": "private_key_jwt"},
            "token_auth_method",
        ),
        ({"who": "somebody"}, "who"),
    ],
)
def test_machine_form_errors_appear_beside_the_field(
    root: Browser, seeded: Seed, changed: dict[str, Any], field: str
) -> None:
    page = root.post(ADD, {**SAID, **changed})
    assert field in page.context["adminform"].form.errors
    assert not Client.objects.exists()
    assert not get_user_model().objects.filter(username__startswith="machine").exists()


def test_machine_client_requires_its_permission(client_of: ClientOf, seeded: Seed) -> None:
    seeded.viewer.user_permissions.add(Permission.objects.get(codename="add_client"))
    viewer = client_of("viewer")
    assert "For a service user" not in viewer.get(ADD).content.decode()
    assert "who" in viewer.post(ADD, SAID).context["adminform"].form.errors
    assert not Client.objects.exists()
    seeded.viewer.user_permissions.add(Permission.objects.get(codename="add_machine_client"))
    viewer = client_of("viewer")
    assert "For a service user" in viewer.get(ADD).content.decode()
    viewer.post(ADD, SAID)
    assert Client.objects.get().is_machine


def test_service_users_are_labelled(root: Browser, seeded: Seed) -> None:
    client, _ = create_machine(Machine("robot", "client_secret_post", ("mcp",)), actor=None)
    user: Any = client.service_user
    user.groups.add(Group.objects.create(name="editors"))
    key = f"user:{user.pk}/client:{client.pk}"
    assert principal_names([key]) == {key: "machine-robot (service user)"}
    users = root.get("/admin/auth/user/?q=machine-robot").content.decode()
    # Without the skin, the pages of users are Django's own.
    assert ("service user" in users) == HAS_UNFOLD
    callers = root.get(f"/admin/mcp_app/tool/{seeded.echo.pk}/callers/").content.decode()
    assert "machine-robot (service user)" in callers
    assert "root (service user)" not in callers


def test_scope_descriptions_refer_to_the_service_user(root: Client) -> None:
    words = root.get(ADD).content.decode()
    assert "Call tools as its service user," in words
    assert "with the permissions of its service user" in words
    assert "as you" not in words


@pytest.mark.parametrize("who", ["people", "machine"])
def test_new_client_needs_a_name(who: str, root: Browser) -> None:
    form = root.get(ADD).context["adminform"].form
    assert form.fields["name"].required
    page = root.post(ADD, {**SAID, "who": who, "name": "", "redirect_uris": "https://a.example/cb"})
    assert set(page.context["adminform"].form.errors) == {"name"}
    assert not Client.objects.filter(redirect_uris="https://a.example/cb").exists()
