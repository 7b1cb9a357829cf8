"""Safe forks of a process that has threads: during a fork, no thread is inside a library.

A forked child has only the thread that forked. If another thread held a lock at that moment, such as a lock
of SQLite, the lock stays locked in the child. The child then hangs at its first use of that library.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from socket import socket

# How long a fork waits for the work of threads to end. After that, a risky fork is better than a hanging
# process.
FORK_SECONDS = 5.0


@contextmanager
def undivided() -> Iterator[None]:
    """Prevent forks during a piece of a thread's work that uses the database or the network."""
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
    # The lock is held during the fork, so that no thread starts such work.
    _changed.acquire()
    _changed.wait_for(lambda: _working == 0, FORK_SECONDS)


def _in_child() -> None:
    global _changed, _working
    _changed, _working = threading.Condition(), 0


def _in_parent() -> None:
    # The condition of this process, which may itself be a forked child.
    _changed.release()


os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)


def close_in_children(listening: Iterable[socket]) -> None:
    """Remove these sockets from forked children, because a child that survives would keep the port in use.

    In a forked child, /dev/null takes their place. Programs that are started never inherit them.
    """
    sockets = tuple(listening)
    for each in sockets:
        each.set_inheritable(False)

    def let_go() -> None:
        nothing = os.open(os.devnull, os.O_RDWR)
        for each in sockets:
            if each.fileno() >= 0:
                # The socket is not closed, because other code knows its file descriptor and could later close
                # an unrelated file with that number.
                os.dup2(nothing, each.fileno(), inheritable=False)
        os.close(nothing)

    os.register_at_fork(after_in_child=let_go)
