"""The app for skills; invalid skills are reported at start."""

from __future__ import annotations

from django.apps import AppConfig


class SkillsConfig(AppConfig):
    """The app; the catalogue discovers ``mcp.py``."""

    name = "mcp_app.contrib.skills"
    label = "mcp_skills"
    verbose_name = "MCP skills"
