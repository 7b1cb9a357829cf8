"""The app for the demo catalogue."""

from __future__ import annotations

from django.apps import AppConfig


class DemoConfig(AppConfig):
    """The app. The catalogue discovers its ``mcp.py``."""

    name = "mcp_app.contrib.demo"
    label = "mcp_demo"
    verbose_name = "MCP demo"
