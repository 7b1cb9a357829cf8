"""The Django app of the entries that crash; they are in mcp.py."""

from __future__ import annotations

from django.apps import AppConfig


class CrashAppConfig(AppConfig):
    """Entries whose code crashes."""

    name = "tests.browser.crash_app"
    label = "crash_app"
    verbose_name = "Crashes"
