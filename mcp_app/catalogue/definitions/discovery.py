"""Finds the entries that apps define in their ``mcp.py`` by importing it; importing registers them."""

from __future__ import annotations

from django.utils.module_loading import autodiscover_modules


def autodiscover() -> None:
    """Import ``<app>/mcp.py`` of every installed app in their order; errors in such a module are its own."""
    autodiscover_modules("mcp")
