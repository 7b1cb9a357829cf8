"""The project's settings with a catalogue of every feature in place of the demo."""

from __future__ import annotations

import json
import os

from mcpsite.settings import *  # noqa: F403
from mcpsite.settings import DATA_DIR
from mcpsite.settings import INSTALLED_APPS as _APPS
from mcpsite.settings import MCP as _MCP

INSTALLED_APPS = [
    *(name for name in _APPS if not name.startswith("mcp_app.contrib.")),
    "tests.integration.features.catalogue_app",
]
MCP = {
    **_MCP,
    "INSTRUCTIONS": "Use the tools with care.",
    "SERVER_TITLE": "Every feature",
    "RESOURCE_DIRECTORIES": [str(DATA_DIR / "documents")],
    "MAX_RUNNING_CALLS_PER_PRINCIPAL": 300,
    **json.loads(os.environ.get("FEATURES_MCP", "{}")),
}
