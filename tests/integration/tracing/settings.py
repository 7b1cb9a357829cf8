"""The project's settings with tracing tools in place of the demo."""

from __future__ import annotations

from mcpsite.settings import *  # noqa: F403
from mcpsite.settings import INSTALLED_APPS as _APPS

INSTALLED_APPS = [
    *(name for name in _APPS if not name.startswith("mcp_app.contrib.")),
    "tests.integration.tracing.app",
]
