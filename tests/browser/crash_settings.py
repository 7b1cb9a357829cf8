"""The project's settings with the entries that crash beside the demo."""

from __future__ import annotations

from mcpsite.settings import *  # noqa: F403
from mcpsite.settings import INSTALLED_APPS as _APPS

INSTALLED_APPS = [*_APPS, "tests.browser.crash_app"]
