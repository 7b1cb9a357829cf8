"""Programs that tools have started, and their descendants. They are killed if their call is stopped (R32).

This works on Linux only. There a process can inherit orphaned descendants, so no descendant escapes by
ending its parent or by starting a new session. On other systems no descendants are found or killed.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
# Also wait for children that were cloned without an exit signal.
WALL = 0x40000000
# A process that is started while its parent is being killed is found in the next round.
ROUNDS = 50
ROUND_SECONDS = 0.02

# Seconds that the code which started a program gets to wait for its end.
ZOMBIE_SECONDS = 2.0
# A process that was found this many times does not count as a descendant of a child that died later.
LOOKS = 3

# Process ids with start times. A process id alone may be used again, but both together are unique.
Kin = dict[int, str]

log = logging.getLogger("mcp.worker")


def adopt_orphans() -> None:
    """Make this process the parent of its descendants whose parents end."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants() -> Kin:
    """Return all running descendants of this process."""
    found: Kin = {}
    waiting = [*_children(os.getpid())] if _has_children() else []
    while waiting:
        pid = waiting.pop()
        waiting += _children(pid)
        state, born = _state(pid)
        if born and state not in "ZX":
            found[pid] = born
    return found


def end_descendants(spare: Mapping[int, str]) -> list[int]:
    """Kill all descendants of this process except ``spare``, and return their ids.

    This takes at most a second.
    """
    ended: list[int] = []
    for _ in range(ROUNDS):
        found = [pid for pid, born in descendants().items() if spare.get(pid) != born]
        if not found:
            break
        ended += (pid for pid in found if pid not in ended)
        for pid in found:
            _kill(pid)
        time.sleep(ROUND_SECONDS)
    for pid in ended:
        # The parent may have waited for it already, or this process may not be the parent.
        _wait_for(pid)
    return ended


def can_run(pid: int) -> bool:
    """Return True if a process is neither stopped nor dead. Return False if its state cannot be read."""
    return _state(pid)[0] not in {"", *"TtZXx"}


class Zombies:
    """Dead children for which no code has waited.

    They are reaped after a delay, in which other code may wait.
    """

    def __init__(self) -> None:
        self._before: Kin = {}

    def collect(self, own: Collection[int] = ()) -> None:
        """Reap the children that were already dead at the previous call, except those in ``own``."""
        dead = {pid: born for pid, (state, born) in _others(own).items() if state == "Z"}
        for pid in [pid for pid, born in dead.items() if self._before.get(pid) == born]:
            del dead[pid]
            _wait_for(pid)
        self._before = dead


class Leftovers:
    """Child processes that finished calls did not end. They are reaped once they are dead.

    Programs of the running call are excluded, because the call may read their exit status at any time.
    """

    def __init__(self) -> None:
        self._left: Kin = {}
        self._dead: Kin = {}
        self._next: threading.Timer | None = None

    def collect(self) -> None:
        """Reap dead children of a finished call now and every ZOMBIE_SECONDS, until all have ended."""
        self._left = {pid: born for pid, (_, born) in _others().items()}
        if self._next is None:
            self._check()

    def _check(self) -> None:
        self._next = None
        states = {pid: _state(pid) for pid in self._left}
        self._left = {pid: born for pid, (_, born) in states.items() if self._left[pid] == born}
        dead = {pid: born for pid, born in self._left.items() if states[pid][0] == "Z"}
        for pid in [pid for pid, born in dead.items() if self._dead.get(pid) == born]:
            del self._left[pid], dead[pid]
            _wait_for(pid)
        self._dead = dead
        if self._left:
            self._next = threading.Timer(ZOMBIE_SECONDS, self._check)
            self._next.daemon = True
            self._next.start()


class Orphans:
    """Descendants that lost their parent when a child of the worker's main process was killed."""

    def __init__(self) -> None:
        self._own: set[int] | None = None
        self._looks: dict[tuple[int, str], int] = {}
        self._has_ended = False
        self._zombies = Zombies()

    def end(self, own: Collection[int]) -> list[int]:
        """Find the orphans, kill them, and return the ids of the killed processes.

        ``own`` are the ids of the children that this process has started.
        """
        others = {(pid, born) for pid, (state, born) in _others(own).items() if state != "Z"}
        # If a child was replaced, it died: it may have been started and killed between two calls. Processes
        # that have been seen in several calls do not belong to it, because this process may have started
        # them.
        came = {pid for pid, born in others if self._looks.get((pid, born), 0) < LOOKS}
        # A process that was started while its parent was being killed is found only now.
        died = self._has_ended or (self._own is not None and self._own != set(own))
        ended = [each for pid in came for each in end_tree(pid)] if died else []
        begin = LOOKS if self._own is None else 0
        # A killed process may take a moment to die. It is not killed a second time.
        self._looks = {
            other: LOOKS if other[0] in ended else self._looks.get(other, begin) + 1 for other in others
        }
        self._own, self._has_ended = set(own), bool(ended)
        self._zombies.collect(own)
        return ended


def end_tree(pid: int) -> list[int]:
    """Kill a child and its descendants, and return their ids.

    Descendants that this function misses become children of this process.
    """
    below = [each for child in _children(pid) for each in end_tree(child)]
    return [*below, *([pid] if _kill(pid) else [])]


def _wait_for(pid: int) -> None:
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _kill(pid: int) -> bool:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
        return True
    return False


def _others(own: Collection[int] = ()) -> dict[int, tuple[str, str]]:
    """Return the state and start time of each child of this process except ``own``."""
    if not _has_children():
        return {}
    found = {pid: _state(pid) for pid in _children(os.getpid()) if pid not in own}
    return {pid: (state, born) for pid, (state, born) in found.items() if born}


def _has_children() -> bool:
    """Return True if this process has children. This is much faster than reading /proc."""
    if sys.platform != "linux":
        return False
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT | WALL)
    except ChildProcessError:
        return False
    return True


def _children(pid: int) -> Iterator[int]:
    """Yield the children of a process. /proc lists them under the thread that started them."""
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                yield from map(int, (thread / "children").read_text().split())


def _state(pid: int) -> tuple[str, str]:
    """Return the state of a process, a single letter, and its start time.

    Return "" twice if there is no process.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return "", ""
    return fields[0], fields[19]
