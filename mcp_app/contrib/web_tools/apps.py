"""The app for the web tools. ``manage.py check`` reports wrong settings."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.core import checks
from django.core.exceptions import ImproperlyConfigured


class WebToolsConfig(AppConfig):
    """The app, which registers the settings check."""

    name = "mcp_app.contrib.web_tools"
    label = "mcp_web_tools"
    verbose_name = "MCP web tools"

    def ready(self) -> None:
        checks.register(check_settings)


def check_settings(**_: Any) -> list[checks.CheckMessage]:
    """Return an error if ``settings.MCP_WEB_TOOLS`` is invalid."""
    from mcp_app.contrib.web_tools import conf

    try:
        conf.get()
    except ImproperlyConfigured as error:
        return [checks.Error(str(error), id="mcp_web_tools.E001")]
    return []
