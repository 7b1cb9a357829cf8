"""The measured installation: the project as it is, with the benchmark's tools in place of the demo."""

from __future__ import annotations

from mcpsite.settings import *  # noqa: F403
from mcpsite.settings import INSTALLED_APPS as _APPS

INSTALLED_APPS = [
    *(name for name in _APPS if not name.startswith("mcp_app.contrib.")),
    "benchmarks.catalogue",
]
