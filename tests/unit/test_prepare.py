"""The end of ``migrate``: the code catalogue and the roles are in the database."""

from __future__ import annotations

import io
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, Permission
from django.core.management import call_command

from mcp_app import tool
from mcp_app.auth.roles import ROLES
from mcp_app.catalogue.changes.mirroring import not_in_database
from mcp_app.catalogue.definitions.registry import registry
from mcp_app.models import Tool
from mcp_app.prepare import after_migrate

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]
CONFIG = apps.get_app_config("mcp_app")


def test_migrate_creates_catalogue_and_roles() -> None:
    assert not_in_database()
    after_migrate(sender=CONFIG, plan=[], verbosity=0)
    assert not_in_database() == []
    assert set(Group.objects.values_list("name", flat=True)) >= ROLES.keys()


def test_migrate_creates_permissions_for_roles() -> None:
    Permission.objects.filter(content_type__app_label="mcp_app").delete()
    after_migrate(sender=CONFIG, plan=[], verbosity=0)
    for name, codenames in ROLES.items():
        held = Group.objects.get(name=name).permissions.values_list("codename", flat=True)
        assert set(held) == codenames


@pytest.mark.parametrize(
    "facts",
    [{}, {"plan": [], "using": "other"}],
    ids=["flush between tests", "another database"],
)
def test_flush_or_other_database_creates_no_catalogue(facts: dict[str, Any]) -> None:
    after_migrate(sender=CONFIG, verbosity=0, **facts)
    assert not Tool.objects.exists()


def test_partially_migrated_database_is_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    from django.db.migrations.recorder import MigrationRecorder

    MigrationRecorder.Migration.objects.filter(app="mcp_app").order_by("-name").first().delete()
    after_migrate(sender=CONFIG, plan=[], verbosity=0)
    assert not Tool.objects.exists()


def test_prepare_command_reports_roles_and_skipped_entries() -> None:
    with registry.isolated():

        @tool
        def taken() -> str:
            """A tool."""
            return ""

        Tool.objects.create(name="taken", source="admin")
        out, errors = io.StringIO(), io.StringIO()
        call_command("mcp_prepare", stdout=out, stderr=errors)
    assert "roles created" in out.getvalue()
    assert "taken" in errors.getvalue()
