"""Memory and number of processes of each session of processes (Linux)."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

_MIB: Final = 1024 * 1024
_PROC: Final = Path("/proc")


def measured() -> dict[int, tuple[int, int]]:
    """Return the resident memory in MiB and the number of processes, by the id of their session.

    The dict is empty on systems without /proc. Blocking: run it in a thread.
    """
    found: dict[int, tuple[int, int]] = {}
    names = [path.name for path in _PROC.iterdir() if path.name.isdigit()] if _PROC.is_dir() else []
    page = os.sysconf("SC_PAGE_SIZE")
    sizes: dict[int, int] = {}
    numbers: dict[int, int] = {}
    for name in names:
        with suppress(OSError, ValueError, IndexError):
            # The name of a program may have spaces and brackets.
            fields = (_PROC / name / "stat").read_bytes().rpartition(b")")[2].split()
            session, pages = int(fields[3]), int(fields[21])
            sizes[session] = sizes.get(session, 0) + pages * page
            numbers[session] = numbers.get(session, 0) + 1
    for session, size in sizes.items():
        found[session] = (size // _MIB, numbers[session])
    return found
