"""Named points between two steps where a test may hold a process; off unless MCP_FAILPOINTS is set.

The variable names a folder. A file in it called like a point holds the first process that gets there: the
file is renamed to ``<point>.<pid>``, and the process goes on when that is removed.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

FOLDER = os.environ.get("MCP_FAILPOINTS", "")


def reach(point: str) -> None:
    """Hold this process here, thread and event loop, if a test asked for it."""
    if not FOLDER:
        return
    held = Path(FOLDER, f"{point}.{os.getpid()}")
    try:
        Path(FOLDER, point).rename(held)
    except FileNotFoundError:
        return
    while held.exists():
        time.sleep(0.01)
