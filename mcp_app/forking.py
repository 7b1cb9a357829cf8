"""Lets a process with threads fork: at that moment none of them is inside of a library.

A forked child has only the thread that forked. A lock that another thread held just then, such as one of
SQLite's or of a resolver, is held in the child for ever, and the child stands still at its first use of that
library.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

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
    # Held over the fork, so that nobody begins meanwhile.
    _changed.acquire()
    _changed.wait_for(lambda: _working == 0, FORK_SECONDS)


def _in_child() -> None:
    global _changed, _working
    _changed, _working = threading.Condition(), 0


os.register_at_fork(before=_before, after_in_parent=_changed.release, after_in_child=_in_child)
