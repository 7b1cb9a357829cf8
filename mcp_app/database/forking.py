"""Lets a process with threads fork: at that moment none of them is inside of a library.

A forked child has only the thread that forked. A lock that another thread held just then, such as one of
SQLite's or of a resolver, is held in the child for ever, and the child stands still at its first use of that
library.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from socket import socket

# How long a fork waits for work to pause; rather a risky fork than a process that stands still itself.
FORK_SECONDS = 5.0


@contextmanager
def undivided() -> Iterator[None]:
    """Around each piece of a thread's work that uses the database or the network: no fork happens inside."""
    global _working  # noqa: PLW0603 - one number for the process, which a fork must reset
    with _changed:
        _working += 1
    try:
        yield
    finally:
        with _changed:
            _working -= 1
            _changed.notify_all()


_changed = threading.Condition()
_working = 0


def _before() -> None:
    # Held over the fork, so that no thread begins meanwhile.
    _changed.acquire()
    _changed.wait_for(lambda: _working == 0, FORK_SECONDS)


def _in_child() -> None:
    global _changed, _working
    _changed, _working = threading.Condition(), 0


os.register_at_fork(before=_before, after_in_parent=_changed.release, after_in_child=_in_child)


def keep_from_children(listening: Iterable[socket]) -> None:
    """Let no child of this process hold these sockets: one that outlives it would keep the port occupied.

    What a tool forks has nothing in their place; what it starts as a program never sees them.
    """
    sockets = tuple(listening)
    for each in sockets:
        each.set_inheritable(False)

    def let_go() -> None:
        nothing = os.open(os.devnull, os.O_RDWR)
        for each in sockets:
            if each.fileno() >= 0:
                # Not closed: others here know the number, and would close it once more when it is another's.
                os.dup2(nothing, each.fileno(), inheritable=False)
        os.close(nothing)

    os.register_at_fork(after_in_child=let_go)
