"""Scheduling class of threads that yield to the event loop of their process.

On Linux, a thread that is woken while the event loop runs gets the processor immediately. There it can only
wait for the interpreter's lock, which the event loop holds. These two useless switches take longer than many
tools. A thread of the class SCHED_BATCH gets its share of the processor, but does not preempt others when it
is woken (``man 7 sched``).
"""

from __future__ import annotations

import os
from contextlib import suppress


def yield_to_event_loop() -> None:
    """Set the calling thread's class to SCHED_BATCH, where the system has it and allows it."""
    if hasattr(os, "SCHED_BATCH"):
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
