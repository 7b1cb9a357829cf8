"""The app for skills. Invalid skills raise ImproperlyConfigured at start."""

from __future__ import annotations

from django.apps import AppConfig


class SkillsConfig(AppConfig):
    """The app. The catalogue discovers its ``mcp.py``."""

    name = "mcp_app.contrib.skills"
    label = "mcp_skills"
    verbose_name = "MCP skills"
