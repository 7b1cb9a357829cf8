"""The running attempt of each child of a worker, in memory that is shared with the main process.

Code that holds the interpreter lock stops every thread of its child, including the lease renewer. The main
process reads the attempt from this memory and acts in place of the child.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from mcp_app.execution.stored.call_record import CallRecord

SLOTS = 4096
BEAT_SECONDS = 0.25
# Enough time for a write to become visible on every processor.
VISIBLE_SECONDS = 0.05


class _Slot(ctypes.Structure):
    """The slot of a child.

    The main process writes only ``condemned``, and the child writes all other members. ``generation``
    identifies the attempt among all attempts of the worker, and is 0 while no attempt runs. Each member is
    written atomically. Therefore no lock is needed, which a killed child could fail to release.
    """

    _fields_ = (
        ("generation", ctypes.c_uint64),
        ("condemned", ctypes.c_uint64),
        ("pid", ctypes.c_uint32),
        ("attempt", ctypes.c_uint32),
        ("beat", ctypes.c_double),
        ("renewed", ctypes.c_double),
        ("ends_at", ctypes.c_double),
        ("call", ctypes.c_char * 32),
        ("is_settled", ctypes.c_uint8),
    )


@dataclass(frozen=True, slots=True)
class RunningAttempt:
    """An attempt as seen by the main process.

    All times are monotonic. ``beat`` is the last time at which a thread of the child had the interpreter
    lock. ``renewed`` is the last time at which the child renewed the lease. ``ends_at`` is the deadline of
    the call. ``is_settled`` is True once only the answer remains to be stored.
    """

    generation: int
    pid: int
    call_id: UUID
    attempt: int
    beat: float
    renewed: float
    ends_at: float
    is_settled: bool


class AttemptSlots:
    """The slots of one worker's children by index. They must be created before the children are forked."""

    def __init__(self) -> None:
        memory = mmap.mmap(-1, SLOTS * ctypes.sizeof(_Slot))
        self._slots = (_Slot * SLOTS).from_buffer(memory)

    def of_child(self, index: int) -> AttemptSlot:
        """Return the slot of the calling child process."""
        return AttemptSlot(self._slots[index])

    def running(self, index: int, pid: int) -> RunningAttempt | None:
        """Return the attempt that a child runs. Return None if it is starting or ending one, or idle."""
        if index >= SLOTS:
            return None
        slot = self._slots[index]
        copy = _Slot.from_buffer_copy(slot)
        if not copy.generation or copy.pid != pid or slot.generation != copy.generation:
            return None
        return RunningAttempt(
            copy.generation,
            copy.pid,
            UUID(copy.call.decode()),
            copy.attempt,
            copy.beat,
            copy.renewed,
            copy.ends_at,
            bool(copy.is_settled),
        )

    def condemn(self, index: int, running: RunningAttempt) -> bool:
        """Return True if the child still runs this attempt and is sure not to start another one.

        If the child ends the attempt after this, it exits. Therefore killing it cannot affect another call.
        """
        slot = self._slots[index]
        slot.condemned = running.generation
        time.sleep(VISIBLE_SECONDS)
        return bool(slot.generation == running.generation)


class AttemptSlot:
    """The slot of the calling child process. One of its threads updates the slot."""

    def __init__(self, slot: _Slot) -> None:
        self._slot = slot
        self._is_settled: Callable[[], bool] = bool
        threading.Thread(target=self._beat, name="mcp-beat", daemon=True).start()

    def begin(self, record: CallRecord, ends_at: float, is_settled: Callable[[], bool]) -> None:
        """Publish an attempt. Call this before any code of the attempt runs."""
        slot = self._slot
        self._is_settled = is_settled
        slot.pid, slot.call, slot.attempt = os.getpid(), record.id.hex.encode(), record.attempt
        slot.beat = slot.renewed = time.monotonic()
        slot.ends_at, slot.is_settled = ends_at, False
        slot.generation = time.monotonic_ns()

    def renewed(self) -> None:
        """Record that the child renewed the lease."""
        self._slot.renewed = time.monotonic()

    def end(self) -> bool:
        """Record the end of the attempt. Return True if the main process is about to kill this child."""
        slot = self._slot
        ended, slot.generation = slot.generation, 0
        self._is_settled = bool
        return bool(slot.condemned == ended)

    def _beat(self) -> None:
        while True:
            self._slot.is_settled = self._is_settled()
            self._slot.beat = time.monotonic()
            time.sleep(BEAT_SECONDS)
