"""Django's entry for the demo catalogue."""

from __future__ import annotations

from django.apps import AppConfig


class DemoConfig(AppConfig):
    """Nothing but names: the catalogue finds ``mcp.py`` by itself."""

    name = "mcp_app.contrib.demo"
    label = "mcp_demo"
    verbose_name = "MCP demo"
