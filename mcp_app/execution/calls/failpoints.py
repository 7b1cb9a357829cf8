"""Named points at which a test can pause a process.

They are disabled unless the variable MCP_FAILPOINTS contains the path of a folder. If a file in this folder
has the name of a point, the first process that reaches the point pauses. It renames the file to
``<point>.<pid>`` and continues once that file has been removed.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

FOLDER = os.environ.get("MCP_FAILPOINTS", "")


def reach(point: str) -> None:
    """Block this thread (and thereby its event loop) at ``point`` if a test requested it."""
    if not FOLDER:
        return
    held = Path(FOLDER, f"{point}.{os.getpid()}")
    try:
        Path(FOLDER, point).rename(held)
    except FileNotFoundError:
        return
    while held.exists():
        time.sleep(0.01)
