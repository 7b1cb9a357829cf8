"""Django's entry for skills; what is wrong with one is said at start."""

from __future__ import annotations

from django.apps import AppConfig


class SkillsConfig(AppConfig):
    """Nothing but names: the catalogue finds ``mcp.py`` by itself."""

    name = "mcp_app.contrib.skills"
    label = "mcp_skills"
    verbose_name = "MCP skills"
