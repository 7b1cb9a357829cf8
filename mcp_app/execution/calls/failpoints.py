"""Named points at which a test can pause a process.

Disabled unless MCP_FAILPOINTS is set. The variable names a folder. A file named like a point pauses the first
process that reaches the point. The file is renamed to ``<point>.<pid>``, and the process continues once that
file is removed.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

FOLDER = os.environ.get("MCP_FAILPOINTS", "")


def reach(point: str) -> None:
    """Pause this process, thread and event loop, if a test requested it."""
    if not FOLDER:
        return
    held = Path(FOLDER, f"{point}.{os.getpid()}")
    try:
        Path(FOLDER, point).rename(held)
    except FileNotFoundError:
        return
    while held.exists():
        time.sleep(0.01)
