"""The scheduling class of threads that must not preempt the event loop of their process.

On Linux, a thread that is woken while the event loop runs gets the processor at once. All it can do there
is wait for the interpreter's lock, which the event loop holds. These two useless switches take longer than
many tools. A thread of the class SCHED_BATCH gets its share of the processor but does not preempt other
threads when it is woken (``man 7 sched``).
"""

from __future__ import annotations

import os
from contextlib import suppress


def yield_to_event_loop() -> None:
    """Set the class of the calling thread to SCHED_BATCH, if the system has this class and permits it."""
    if hasattr(os, "SCHED_BATCH"):
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
