"""The running attempt of each worker child, in memory shared with the main process.

Code that holds the interpreter lock stops every thread of its child, including the lease renewer. The main
process reads the attempt here and acts in the child's place.
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
# Long enough for a write to be visible to every processor.
VISIBLE_SECONDS = 0.05


class _Slot(ctypes.Structure):
    """The slot of a child.

    The main process writes only ``condemned``, the child everything else. ``generation`` identifies the
    attempt among all attempts of the worker, and is 0 while none runs. Each member is written atomically, so
    no lock is needed that a killed child could leave locked.
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

    All times are monotonic. ``beat`` is when a thread of the child last had the interpreter lock. ``renewed``
    is when the child last renewed the lease. ``ends_at`` is the call's deadline. ``is_settled``: only the
    answer is left to store.
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
    """The slots of one worker's children by their index. Created before the children are forked."""

    def __init__(self) -> None:
        memory = mmap.mmap(-1, SLOTS * ctypes.sizeof(_Slot))
        self._slots = (_Slot * SLOTS).from_buffer(memory)

    def of_child(self, index: int) -> AttemptSlot:
        """Return the slot of the calling child, which has this index."""
        return AttemptSlot(self._slots[index])

    def running(self, index: int, pid: int) -> RunningAttempt | None:
        """Return the attempt that a child runs, or None if it runs none, or is starting or ending one."""
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
        """Return True if the child still runs this attempt and will start no other.

        A child that ends the attempt after this exits, so killing it affects no other call.
        """
        slot = self._slots[index]
        slot.condemned = running.generation
        time.sleep(VISIBLE_SECONDS)
        return bool(slot.generation == running.generation)


class AttemptSlot:
    """The slot of this child, updated by one of its threads."""

    def __init__(self, slot: _Slot) -> None:
        self._slot = slot
        self._is_settled: Callable[[], bool] = bool
        threading.Thread(target=self._beat, name="mcp-beat", daemon=True).start()

    def begin(self, record: CallRecord, ends_at: float, is_settled: Callable[[], bool]) -> None:
        """Publish an attempt, before any of its code runs."""
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
        """Record that the attempt ended. Return True if the main process is about to kill this child."""
        slot = self._slot
        ended, slot.generation = slot.generation, 0
        self._is_settled = bool
        return bool(slot.condemned == ended)

    def _beat(self) -> None:
        while True:
            self._slot.is_settled = self._is_settled()
            self._slot.beat = time.monotonic()
            time.sleep(BEAT_SECONDS)
