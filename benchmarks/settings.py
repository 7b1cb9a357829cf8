"""The measured installation: the project as it is, with the benchmark's tools in place of the demo."""

from __future__ import annotations

import os

from mcpsite.settings import *  # noqa: F403
from mcpsite.settings import INSTALLED_APPS as _APPS
from mcpsite.settings import MCP as _MCP

INSTALLED_APPS = [
    *(name for name in _APPS if not name.startswith("mcp_app.contrib.")),
    "benchmarks.catalogue",
]

# All load comes from one principal, which is not what the product's bounds are made for.
MCP = {
    **_MCP,
    # A round of looking who is there would hide what else thousands of streams cost.
    "KEEP_ALIVE_SECONDS": float(os.environ.get("BENCH_KEEP_ALIVE", "15")),
    "MAX_SESSIONS_PER_PRINCIPAL": 10_000,
    "MAX_STREAMS_PER_PRINCIPAL": 10_000,
    # Thousands of sessions are opened and ended in a second.
    "MAX_KEPT_BYTES_PER_PRINCIPAL": 0,
    "MAX_KEPT_PERCENT_PER_PRINCIPAL": 0,
}
