"""API keys: issued once, stored as a hash, revoked permanently, audited."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission

from mcp_app.auth.api_keys import PREFIX, find_principal, issue_api_key, revoke_api_key
from mcp_app.auth.principal import EVERYTHING
from mcp_app.models import ApiKey, AuditEvent

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]


def test_only_hash_of_key_is_stored(user: Any) -> None:
    row, secret = issue_api_key(user=user, name="laptop")
    assert secret.startswith(PREFIX)
    assert len(secret) == len(PREFIX) + 43
    stored = ApiKey.objects.filter(pk=row.pk).values().get()
    assert secret not in str(stored)
    assert str(stored["prefix"]) == secret[:12]


def test_keys_are_unique(user: Any) -> None:
    secrets = {issue_api_key(user=user, name="n")[1] for _ in range(50)}
    assert len(secrets) == 50


def test_each_key_of_a_user_is_its_own_principal(user: Any) -> None:
    found = [find_principal(issue_api_key(user=user, name=name)[1]) for name in ("a", "b")]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0].key != found[1].key
    assert found[0].user_id == found[1].user_id == user.pk


@pytest.mark.parametrize("secret", ["", "mcp_", "mcp_unknown", "\udcff", "x" * 10_000, "'; DROP TABLE x; --"])
def test_malformed_or_unknown_key_finds_no_principal(user: Any, secret: str) -> None:
    issue_api_key(user=user, name="laptop")
    assert find_principal(secret) is None


def test_issue_and_revoke_are_audited_without_secret(user: Any) -> None:
    row, secret = issue_api_key(user=user, name="laptop", actor=user)
    revoke_api_key(key=row, actor=user)
    events = list(AuditEvent.objects.order_by("id").values("action", "actor_name", "object_key", "detail"))
    assert [event["action"] for event in events] == ["api_key.issue", "api_key.revoke"]
    assert {event["actor_name"] for event in events} == {"ada"}
    assert secret not in str(events)


def test_second_revoke_changes_and_audits_nothing(user: Any) -> None:
    row, _ = issue_api_key(user=user, name="laptop")
    revoke_api_key(key=row)
    first = row.revoked_at
    revoke_api_key(key=row)
    assert row.revoked_at == first
    assert AuditEvent.objects.filter(action="api_key.revoke").count() == 1


def test_principal_has_permissions_of_its_user(user: Any) -> None:
    permission = Permission.objects.get(codename="view_session", content_type__app_label="mcp_app")
    user.user_permissions.add(permission)
    _, secret = issue_api_key(user=user, name="laptop")
    principal = find_principal(secret)
    assert principal is not None
    assert "mcp_app.view_session" in principal.permissions
    assert "mcp_app.delete_session" not in principal.permissions


def test_superuser_principal_has_every_permission(transactional_db: None) -> None:
    root = get_user_model().objects.create_superuser("root", password="not used here")
    principal = find_principal(issue_api_key(user=root, name="laptop")[1])
    assert principal is not None
    assert principal.permissions is EVERYTHING
    assert "any.permission" in principal.permissions
    assert "secret" not in repr(principal)
