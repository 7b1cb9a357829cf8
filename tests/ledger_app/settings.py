"""The project with the ledger's tools in place of the demo."""

from __future__ import annotations

import json
import os

from mcpsite.settings import *  # noqa: F403
from mcpsite.settings import INSTALLED_APPS as _APPS
from mcpsite.settings import MCP as _MCP

INSTALLED_APPS = [*(name for name in _APPS if not name.startswith("mcp_app.contrib.")), "tests.ledger_app"]
MCP = {
    **_MCP,
    "PROGRESS_PER_SECOND": 1_000.0,
    "LOG_MESSAGES_PER_CALL": 100_000,
    "MAX_STREAM_EVENTS": 20_000,
    "MAX_STREAM_BYTES": 8 * 1024 * 1024,
    **json.loads(os.environ.get("LEDGER_MCP", "{}")),
}
