"""Owns what happens once when Django has loaded every app; does no I/O."""

from __future__ import annotations

from django.apps import AppConfig


class McpAppConfig(AppConfig):
    """The Model Context Protocol app."""

    name = "mcp_app"
    label = "mcp_app"
    verbose_name = "Model Context Protocol"
    default_auto_field = "django.db.models.BigAutoField"
