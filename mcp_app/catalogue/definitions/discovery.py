"""Discovery of the ``mcp.py`` modules of apps; importing them registers their entries."""

from __future__ import annotations

from django.utils.module_loading import autodiscover_modules


def autodiscover() -> None:
    """Import ``<app>/mcp.py`` of every installed app in order; errors of these modules propagate."""
    autodiscover_modules("mcp")
