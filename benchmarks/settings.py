"""The measured installation: the default project with the benchmark's tools in place of the demo."""

from __future__ import annotations

import os

from mcpsite.settings import *  # noqa: F403
from mcpsite.settings import INSTALLED_APPS as _APPS
from mcpsite.settings import MCP as _MCP

INSTALLED_APPS = [
    *(name for name in _APPS if not name.startswith("mcp_app.contrib.")),
    "benchmarks.catalogue",
]

# All load comes from one principal; the product's limits are not designed for that.
MCP = {
    **_MCP,
    # A presence check would hide the other costs of thousands of streams.
    "KEEP_ALIVE_SECONDS": float(os.environ.get("BENCH_KEEP_ALIVE", "15")),
    "MAX_SESSIONS_PER_PRINCIPAL": 10_000,
    "MAX_STREAMS_PER_PRINCIPAL": 10_000,
    # Thousands of sessions are created and deleted per second.
    "MAX_KEPT_BYTES_PER_PRINCIPAL": 0,
    "MAX_KEPT_PERCENT_PER_PRINCIPAL": 0,
}
