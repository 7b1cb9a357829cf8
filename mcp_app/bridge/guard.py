"""A process that kills the processes of the bridge after it ended. It uses the standard library only.

It reads process groups and their marks from its input: ``+12 mark`` for a new group, ``-12`` for a group that
ended. The input ends with the bridge, also if the bridge was killed.

A process that left its group has the mark of its session in its environment, which its children inherit.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

# The variable with the mark of a session.
VARIABLE = "MCP_UPSTREAM_SESSION"
# A process may start another one while it is killed.
ROUNDS = 10


def kill_marked(mark: str) -> None:
    """Kill all processes with a mark (Linux). Blocking."""
    for _ in range(ROUNDS):
        found = marked(mark)
        for number in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(number, signal.SIGKILL)
        if not found:
            return


def marked(mark: str) -> list[int]:
    """Return the ids of all running processes with a mark. Processes of other users cannot be read."""
    wanted, found = f"{VARIABLE}={mark}".encode(), []
    names = os.listdir("/proc") if sys.platform == "linux" else []  # noqa: PTH208 - pathlib loads slowly
    for name in filter(str.isdigit, names):
        # The environment of a process that has ended is empty.
        with suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:  # noqa: PTH123 - as above
            if wanted in file.read().split(b"\0"):
                found.append(int(name))
    return found


def main() -> None:
    """Read groups until the end of the input, and kill those that are left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: dict[int, str] = {}
    for line in sys.stdin:
        group, _, mark = line.strip().partition(" ")
        if mark:
            groups[int(group)] = mark
        else:
            groups.pop(-int(group), None)
    for each, mark in groups.items():
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(each, signal.SIGKILL)
        kill_marked(mark)


if __name__ == "__main__":
    main()
