"""The programs that tools start, and what those start in turn: what a stopped call leaves is ended (R32).

On Linux, where a process can ask to inherit the orphans among its descendants, so that none escapes by ending
its own parent or by a session of its own. Elsewhere none are seen, and none are ended.
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
# Also children that were cloned without a signal for their end.
WALL = 0x40000000
# What starts others while it is being ended is found in a further round.
ROUNDS = 50
ROUND_SECONDS = 0.02

# Who started a program has as long to wait for its end.
ZOMBIE_SECONDS = 2.0
# So many looks after it came, nothing is taken for what a child left that died before.
LOOKS = 3

# Numbers are given out again, a number with a time of birth is not.
Kin = dict[int, str]

log = logging.getLogger("mcp.worker")


def adopt_orphans() -> None:
    """From now on descendants whose parent ends become children of this process."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants() -> Kin:
    """All that run below this process now."""
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
    """Kill all that run below this process but ``spare``; returns whom. Takes a second at most."""
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
        # Its own parent may have waited for it, and the parent's was perhaps not this process.
        _wait_for(pid)
    return ended


def can_run(pid: int) -> bool:
    """Return True if a process is neither stopped nor dead; False where that cannot be seen."""
    return _state(pid)[0] not in {"", *"TtZXx"}


class Zombies:
    """Reaps dead children that no code waits for; the code that started one has time to wait for it first."""

    def __init__(self) -> None:
        self._before: Kin = {}

    def collect(self, own: Collection[int] = ()) -> None:
        """Reap children already dead at the last look, except ``own``."""
        dead = {pid: born for pid, (state, born) in _others(own).items() if state == "Z"}
        for pid in [pid for pid, born in dead.items() if self._before.get(pid) == born]:
            del dead[pid]
            _wait_for(pid)
        self._before = dead


class Leftovers:
    """What the calls of this process left behind, collected when it has died, also if no further call comes.

    Programs of the call that runs now are left alone: it may ask for their exit status when it likes.
    """

    def __init__(self) -> None:
        self._left: Kin = {}
        self._dead: Kin = {}
        self._next: threading.Timer | None = None

    def collect(self) -> None:
        """A call is over: collect its dead children now, and every ZOMBIE_SECONDS until all of them are."""
        self._left = {pid: born for pid, (_, born) in _others().items()}
        if self._next is None:
            self._look()

    def _look(self) -> None:
        self._next = None
        states = {pid: _state(pid) for pid in self._left}
        self._left = {pid: born for pid, (_, born) in states.items() if self._left[pid] == born}
        dead = {pid: born for pid, born in self._left.items() if states[pid][0] == "Z"}
        for pid in [pid for pid, born in dead.items() if self._dead.get(pid) == born]:
            del self._left[pid], dead[pid]
            _wait_for(pid)
        self._dead = dead
        if self._left:
            self._next = threading.Timer(ZOMBIE_SECONDS, self._look)
            self._next.daemon = True
            self._next.start()


class Orphans:
    """Of a worker's main process: what a child that was killed had started is ended after it."""

    def __init__(self) -> None:
        self._own: set[int] | None = None
        self._looks: dict[tuple[int, str], int] = {}
        self._has_ended = False
        self._zombies = Zombies()

    def end(self, own: Collection[int]) -> list[int]:
        """Look for them. ``own``: the children that this process started; returns whom it killed."""
        others = {(pid, born) for pid, (state, born) in _others(own).items() if state != "Z"}
        # Also a substitute says that a child died: one that lived between two looks only was never seen. But
        # a child seen for several looks was not left by it: this process may have started something itself.
        came = {pid for pid, born in others if self._looks.get((pid, born), 0) < LOOKS}
        # What one of those started while it was being ended is there only now.
        died = self._has_ended or (self._own is not None and self._own != set(own))
        ended = [each for pid in came for each in end_tree(pid)] if died else []
        begin = LOOKS if self._own is None else 0
        # Who was killed may take a moment to die, and is not killed again.
        self._looks = {
            other: LOOKS if other[0] in ended else self._looks.get(other, begin) + 1 for other in others
        }
        self._own, self._has_ended = set(own), bool(ended)
        self._zombies.collect(own)
        return ended


def end_tree(pid: int) -> list[int]:
    """Kill a child and all below it; returns whom. What is missed becomes a child of this process."""
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
    """The children of this process but ``own``: state and time of birth of each."""
    if not _has_children():
        return {}
    found = {pid: _state(pid) for pid in _children(os.getpid()) if pid not in own}
    return {pid: (state, born) for pid, (state, born) in found.items() if born}


def _has_children() -> bool:
    """Whether this process has any. Takes a microsecond; reading /proc takes as long as a statement."""
    if sys.platform != "linux":
        return False
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT | WALL)
    except ChildProcessError:
        return False
    return True


def _children(pid: int) -> Iterator[int]:
    """The children of a process, by those of its threads that started them."""
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                yield from map(int, (thread / "children").read_text().split())


def _state(pid: int) -> tuple[str, str]:
    """The state of a process, as one letter, and its time of birth; both empty when there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return "", ""
    return fields[0], fields[19]
