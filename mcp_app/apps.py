"""Owns what happens once when Django has loaded every app: the entries that apps define are registered."""

from __future__ import annotations

from django.apps import AppConfig


class McpAppConfig(AppConfig):
    """The Model Context Protocol app."""

    name = "mcp_app"
    label = "mcp_app"
    verbose_name = "Model Context Protocol"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Import ``mcp.py`` of every app; a wrong definition there is an error that names the function."""
        from mcp_app import checks  # noqa: F401 - importing registers
        from mcp_app.catalogue.discovery import autodiscover

        autodiscover()
