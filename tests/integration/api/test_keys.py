"""API keys over the API: the secret is returned once, the admin's rules apply, all is audited (S14, S21)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from mcp_app.auth.api_keys import find_principal
from mcp_app.models import ApiKey, AuditEvent
from tests.integration.api.conftest import ClientOf, send
from tests.samples.admin_seed import Seed

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]


def test_key_is_issued_with_its_secret_once_and_revoked(root: Client, seeded: Seed) -> None:
    made = send(root, "POST", "/api/keys/", {"name": "robot", "user": "viewer"})
    assert made.status_code == 201
    secret, address = made.json()["secret"], f"/api/keys/{made.json()['id']}/"
    principal = find_principal(secret)
    assert principal is not None
    assert principal.user_id == seeded.viewer.pk
    assert made["Cache-Control"] == "no-store"
    for path in (address, "/api/keys/", "/api/audit/"):
        assert secret not in root.get(path).content.decode()
    assert root.get(address).json()["usable"] is True
    assert root.post(f"{address}revoke/").json()["usable"] is False
    assert find_principal(secret) is None
    events = AuditEvent.objects.filter(object_key__startswith="robot").order_by("id")
    assert [event.action for event in events] == ["api_key.issue", "api_key.revoke"]


def test_only_superusers_issue_keys_for_other_users(client_of: ClientOf, seeded: Seed) -> None:
    client = client_of("administrator")
    answers = [
        send(client, "POST", "/api/keys/", {"name": "x", "user": name})
        for name in ("root", "nobody-of-that-name")
    ]
    assert [answer.status_code for answer in answers] == [403, 403]
    assert answers[0].json() == answers[1].json()
    own = send(client, "POST", "/api/keys/", {"name": "x", "user": "the-administrator"})
    assert own.json()["user"] == "the-administrator"
    assert send(client, "POST", "/api/keys/", {"name": "x"}).json()["user"] == "the-administrator"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "name"),
        ({"name": ""}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"name": "safe\u202egnp"}, "name"),
        ({"name": "x", "expires_at": "2020-01-01T00:00:00Z"}, "expires_at"),
        ({"name": "x", "expires_at": "soon"}, "expires_at"),
        ({"name": "x", "expires_in_days": 31}, "expires_in_days"),
        ({"name": "x", "expires_in_days": 30, "expires_at": "2100-01-01T00:00:00Z"}, "expires_in_days"),
        ({"name": "x", "scopes": []}, "scopes"),
        ({"name": "x", "scopes": ["mcp", "mcp:everything"]}, "scopes"),
        ({"name": "x", "scopes": "mcp"}, "scopes"),
        ({"name": "x", "user": "nobody-of-that-name"}, "user"),
        ({"name": "x", "user_id": 1}, "user_id"),
        ({"name": "x", "secret_hash": "0" * 64}, "secret_hash"),
        ({"name": "x", "user": "asleep"}, "user"),
    ],
)
def test_invalid_key_is_refused_at_its_field(
    body: Any, field: str, root: Client, seeded: Seed, django_user_model: Any
) -> None:
    django_user_model.objects.create_user("asleep", is_active=False)
    before = ApiKey.objects.count()
    answer = send(root, "POST", "/api/keys/", body)
    assert answer.status_code == 400
    assert set(answer.json()["errors"]) == {field}
    assert ApiKey.objects.count() == before


@pytest.mark.parametrize("state", ["revoked", "expired", "inactive", "unknown", "basic", "long", "empty"])
def test_invalid_credentials_get_one_response_with_a_challenge(
    state: str, root: Client, seeded: Seed, user_of: Callable[[str], Any]
) -> None:
    secret = send(root, "POST", "/api/keys/", {"name": "mine"}).json()["secret"]
    key = ApiKey.objects.get(name="mine")
    if state == "revoked":
        ApiKey.objects.filter(pk=key.pk).update(revoked_at=timezone.now())
    if state == "expired":
        ApiKey.objects.filter(pk=key.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    if state == "inactive":
        key.user.is_active = False
        key.user.save()
    header = {
        "unknown": f"Bearer {secret}x",
        "basic": f"Basic {secret}",
        "long": f"Bearer {' ' * 600}{secret}",
        "empty": "",
    }.get(state, f"Bearer {secret}")
    client = Client(headers={"authorization": header})
    # A login sent with an invalid key does not help.
    client.force_login(seeded.root)
    answer = client.get("/api/tools/")
    assert answer.status_code == 401
    assert answer["WWW-Authenticate"] == 'Bearer realm="api", error="invalid_token"'
    assert answer.json()["detail"] == "The API key is unknown, expired or revoked."


def test_credential_is_required_on_loopback(client: Client, db: None, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "AUTH": "loopback"}
    answer = client.get("/api/tools/")
    assert answer.status_code == 401
    assert answer["WWW-Authenticate"] == 'Bearer realm="api"'


def test_last_use_of_a_key_is_recorded_at_intervals(root: Client, seeded: Seed) -> None:
    def used() -> Any:
        return ApiKey.objects.get(name="tests").last_used_at

    root.get("/api/")
    first = used()
    assert first is not None
    root.get("/api/")
    assert used() == first
    ApiKey.objects.filter(name="tests").update(last_used_at=first - timedelta(minutes=2))
    root.get("/api/")
    assert used() >= first


@pytest.mark.parametrize(("days", "warned"), [(30, False), (90, False), (365, False), (None, True)])
def test_key_has_the_requested_scopes_and_expiry(
    days: int | None, warned: bool, root: Client, seeded: Seed
) -> None:
    body = {"name": "robot", "scopes": ["mcp:tools", "mcp"], **({"expires_in_days": days} if days else {})}
    told = send(root, "POST", "/api/keys/", body).json()
    assert told["scopes"] == ["mcp", "mcp:tools"]
    assert bool(told["warning"]) == warned
    ends = ApiKey.objects.get(name="robot").expires_at
    assert (ends is None) == warned
    assert days is None or abs(ends - datetime.now(UTC) - timedelta(days=days)) < timedelta(minutes=1)


def test_key_has_the_admin_scope_only_on_request(root: Client, seeded: Seed) -> None:
    usual = ["mcp", "mcp:tools", "mcp:resources", "mcp:prompts"]
    assert send(root, "POST", "/api/keys/", {"name": "usual"}).json()["scopes"] == usual
    body = {"name": "all", "scopes": [*usual, "mcp:admin"]}
    assert send(root, "POST", "/api/keys/", body).json()["scopes"] == body["scopes"]


def test_key_without_the_admin_scope_is_refused(root: Client, seeded: Seed) -> None:
    body = {"name": "robot", "scopes": ["mcp", "mcp:tools"]}
    secret = send(root, "POST", "/api/keys/", body).json()["secret"]
    answer = Client(headers={"authorization": f"Bearer {secret}"}).get("/api/tools/")
    assert answer.status_code == 403
    assert 'error="insufficient_scope"' in answer["WWW-Authenticate"]
    assert "The API key needs the scope mcp:admin." in answer.json()["detail"]


def test_key_is_replaced_with_its_secret_once(root: Client, seeded: Seed) -> None:
    made = send(root, "POST", "/api/keys/", {"name": "robot", "user": "viewer", "scopes": ["mcp:tools"]})
    old_secret, address = made.json()["secret"], f"/api/keys/{made.json()['id']}/"
    answer = send(root, "POST", f"{address}replace/", {"old_key_ends": "1h"})
    assert answer.status_code == 201
    assert answer["Cache-Control"] == "no-store"
    same = ("name", "user", "scopes")
    assert [answer.json()[name] for name in same] == [made.json()[name] for name in same]
    secret = answer.json()["secret"]
    assert find_principal(secret) is not None
    assert find_principal(old_secret) is not None
    assert secret not in root.get(address).content.decode()
    send(root, "POST", f"{address}replace/", {})
    assert find_principal(old_secret) is None


@pytest.mark.parametrize(("body", "status"), [({"old_key_ends": "never"}, 400), ({"other": 1}, 400)])
def test_invalid_replacement_changes_nothing(
    body: dict[str, Any], status: int, root: Client, seeded: Seed
) -> None:
    before = ApiKey.objects.count()
    assert send(root, "POST", f"/api/keys/{seeded.key.pk}/replace/", body).status_code == status
    assert ApiKey.objects.count() == before


def test_only_superusers_replace_keys_of_other_users(client_of: ClientOf, seeded: Seed) -> None:
    address = f"/api/keys/{seeded.key.pk}/replace/"
    client = client_of("administrator")
    before = ApiKey.objects.count()
    assert send(client, "POST", address, {}).status_code == 403
    assert ApiKey.objects.count() == before
    assert ApiKey.objects.get(pk=seeded.key.pk).usable
