"""Has the operating system let a thread yield to the event loop of its process.

A thread that is woken while the event loop runs gets the processor at once, on Linux, and can do nothing
there but wait for the interpreter's lock, which the event loop holds. Then the processor goes back: two
switches for nothing, which take longer than many a tool. A thread of the class SCHED_BATCH gets its share of
the processor as others do, but takes it from nobody when it is woken (``man 7 sched``).
"""

from __future__ import annotations

import os
from contextlib import suppress


def yield_to_event_loop() -> None:
    """Called by the thread, once; without effect where the system has no such class, or refuses it."""
    if hasattr(os, "SCHED_BATCH"):
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
