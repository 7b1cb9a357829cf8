"""Owns what happens once when Django has loaded every app: entries are registered, signals connected."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate, post_save


class McpAppConfig(AppConfig):
    """The Model Context Protocol app."""

    name = "mcp_app"
    label = "mcp_app"
    verbose_name = "Model Context Protocol"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Import ``mcp.py`` of every app; a wrong definition there is an error that names the function."""
        from mcp_app.catalogue.definitions.discovery import autodiscover
        from mcp_app.checks import configuration, rows, schemas  # noqa: F401 - importing registers
        from mcp_app.conf import projects_redis

        projects_redis()
        autodiscover()
        post_migrate.connect(_prepare, sender=self, dispatch_uid="mcp_app.prepare")
        post_save.connect(_rename, sender="auth.Group", dispatch_uid="mcp_app.rename")


def _rename(instance: Any, created: bool, raw: bool, **_: Any) -> None:
    from mcp_app.auth.membership import rename_memberships

    if not created and not raw:
        rename_memberships(instance)


def _prepare(**facts: Any) -> None:
    from mcp_app.prepare import after_migrate

    after_migrate(**facts)
