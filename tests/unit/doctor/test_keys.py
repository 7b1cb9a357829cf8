"""API key checks: expiring, unused, or owned by an inactive user."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone

from mcp_app.auth.api_keys import issue_api_key
from mcp_app.doctor import Installation, Level, keys
from mcp_app.doctor.examination import Check
from mcp_app.models import ApiKey

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]
HERE = Installation()


def key(name: str, *, days_old: int = 0, is_active: bool = True, **fields: int | None) -> None:
    """Create a key row; times are in days from now."""
    user = get_user_model().objects.create_user(f"user of {name}")
    row, _ = issue_api_key(user=user, name=name)
    get_user_model().objects.filter(pk=user.pk).update(is_active=is_active)
    now = timezone.now()
    times: dict[str, Any] = {
        field: None if days is None else now + timedelta(days=days) for field, days in fields.items()
    }
    ApiKey.objects.filter(pk=row.pk).update(created_at=now - timedelta(days=days_old), **times)


@pytest.mark.parametrize(
    ("check", "fields", "level"),
    [
        (keys.expiring, {"expires_at": 13}, Level.WARNING),
        (keys.expiring, {"expires_at": 15}, Level.OK),
        (keys.expiring, {"expires_at": -1}, Level.OK),
        (keys.expiring, {"expires_at": 13, "revoked_at": -1}, Level.OK),
        (keys.expiring, {"expires_at": None}, Level.OK),
        (keys.unused, {"days_old": 91}, Level.WARNING),
        (keys.unused, {"days_old": 89}, Level.OK),
        (keys.unused, {"days_old": 400, "last_used_at": -91}, Level.WARNING),
        (keys.unused, {"days_old": 400, "last_used_at": -89}, Level.OK),
        (keys.unused, {"days_old": 400, "revoked_at": -1}, Level.OK),
        (keys.inactive, {"is_active": False}, Level.WARNING),
        (keys.inactive, {"is_active": False, "revoked_at": -1}, Level.OK),
        (keys.inactive, {}, Level.OK),
    ],
)
def test_key_finding_has_level_and_remedy(check: Check, fields: dict[str, Any], level: Level) -> None:
    key("laptop", **fields)
    (found,) = check(HERE)
    assert found.level == level
    assert ("laptop" in found.text) == (level == Level.WARNING)
    assert bool(found.remedy) == (level == Level.WARNING)


def test_long_key_list_is_abbreviated_with_count() -> None:
    for number in range(8):
        key(f"key {number}", expires_at=1)
    (found,) = keys.expiring(HERE)
    assert "key 4 and 3 more" in found.text


def test_usable_keys_are_counted_in_words() -> None:
    key("one")
    assert [found.text for found in keys.readable(HERE)] == ["1 usable API key"]
    key("two")
    assert [found.text for found in keys.readable(HERE)] == ["2 usable API keys"]
