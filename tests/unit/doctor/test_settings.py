"""Settings checks: each fault is an error with a remedy; valid settings are ok."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import override_settings

from mcp_app.doctor import Installation, Level, settings
from mcp_app.doctor.examination import Check

PUBLIC = Installation(url="https://mcp.example.com")
REDIS = "redis://:hunter2@host:6379/0"
LOCAL: dict[str, Any] = {"ALLOWED_HOSTS": ["127.0.0.1", "localhost"], "MCP": {}}
OURS = {"CELERY_BROKER_TRANSPORT": settings.BROKER_TRANSPORT}


@pytest.mark.parametrize(
    ("check", "values", "where", "level"),
    [
        (settings.debug, {"DEBUG": True}, PUBLIC, Level.ERROR),
        (settings.debug, {"DEBUG": True, "ALLOWED_HOSTS": ["*"]}, Installation(), Level.ERROR),
        (settings.debug, {"DEBUG": True}, Installation(url="http://127.0.0.1:8000"), Level.OK),
        (settings.debug, {"DEBUG": False}, PUBLIC, Level.OK),
        (settings.loopback, {"MCP": {"AUTH": "loopback"}}, PUBLIC, Level.ERROR),
        (settings.loopback, {"MCP": {"AUTH": "loopback", "LOOPBACK": True}}, PUBLIC, Level.OK),
        (settings.loopback, {"MCP": {"AUTH": "required"}}, PUBLIC, Level.OK),
        (settings.secret_key, {"SECRET_KEY": "django-insecure-" + "x" * 50}, PUBLIC, Level.ERROR),
        (settings.secret_key, {"SECRET_KEY": "x" * 31}, PUBLIC, Level.ERROR),
        (settings.secret_key, {"SECRET_KEY": "x" * 32}, PUBLIC, Level.OK),
        (settings.broker, {"CELERY_BROKER_URL": REDIS, "CELERY_BROKER_TRANSPORT": ""}, PUBLIC, Level.ERROR),
        (settings.broker, {"CELERY_BROKER_URL": REDIS, **OURS}, PUBLIC, Level.OK),
    ],
)
def test_setting_finding_has_level_and_remedy(
    check: Check, values: dict[str, Any], where: Installation, level: Level
) -> None:
    with override_settings(**{**LOCAL, **values}):
        (found,) = check(where)
    assert found.level == level
    assert bool(found.remedy) == (level == Level.ERROR)
    assert "hunter2" not in found.text


def test_non_redis_broker_needs_no_transport() -> None:
    with override_settings(CELERY_BROKER_URL="memory://"):
        assert list(settings.broker(PUBLIC)) == []
