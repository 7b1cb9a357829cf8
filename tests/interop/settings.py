"""The project with its demo, the trip and the pages; web_scrape reads a page of this machine."""

from __future__ import annotations

import os

from mcpsite.settings import *  # noqa: F403
from mcpsite.settings import INSTALLED_APPS as _APPS

INSTALLED_APPS = [*_APPS, "tests.interop.pages", "tests.interop.trip"]
MCP_WEB_TOOLS = {"ALLOW": ["127.0.0.1/32"], "PORTS": [int(os.environ.get("PAGE_PORT", "80"))]}
