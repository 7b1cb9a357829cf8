"""Owns what happens once when Django has loaded every app: the entries that apps define are registered."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class McpAppConfig(AppConfig):
    """The Model Context Protocol app."""

    name = "mcp_app"
    label = "mcp_app"
    verbose_name = "Model Context Protocol"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Import ``mcp.py`` of every app; a wrong definition there is an error that names the function."""
        from mcp_app import checks  # noqa: F401 - importing registers
        from mcp_app.catalogue.definitions.discovery import autodiscover

        autodiscover()
        post_migrate.connect(_prepare, sender=self, dispatch_uid="mcp_app.prepare")


def _prepare(**facts: Any) -> None:
    from mcp_app.prepare import after_migrate

    after_migrate(**facts)
