"""The project with its demo; the one page that web_scrape is asked for lives on this machine."""

from __future__ import annotations

import os

from mcpsite.settings import *  # noqa: F403

MCP_WEB_TOOLS = {"ALLOW": ["127.0.0.1/32"], "PORTS": [int(os.environ.get("PAGE_PORT", "80"))]}
