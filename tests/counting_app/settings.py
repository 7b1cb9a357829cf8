"""The project with the counting app in place of the demo."""

from __future__ import annotations

from mcpsite.settings import *  # noqa: F403
from mcpsite.settings import INSTALLED_APPS as _APPS
from mcpsite.settings import MCP as _MCP

INSTALLED_APPS = [*(name for name in _APPS if not name.startswith("mcp_app.contrib.")), "tests.counting_app"]
# Their statements are periodic, not per request.
MCP = {**_MCP, "MESSAGE_LOG": False, "METRICS": False}
