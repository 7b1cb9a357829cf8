"""Django's entry for the web tools; a wrong setting is found by ``manage.py check``."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.core import checks
from django.core.exceptions import ImproperlyConfigured


class WebToolsConfig(AppConfig):
    """Registers the settings check."""

    name = "mcp_app.contrib.web_tools"
    label = "mcp_web_tools"
    verbose_name = "MCP web tools"

    def ready(self) -> None:
        """Called by Django once all apps are loaded."""
        checks.register(check_settings)


def check_settings(**_: Any) -> list[checks.CheckMessage]:
    """Whether ``settings.MCP_WEB_TOOLS`` can be used."""
    from mcp_app.contrib.web_tools import conf

    try:
        conf.get()
    except ImproperlyConfigured as error:
        return [checks.Error(str(error), id="mcp_web_tools.E001")]
    return []
