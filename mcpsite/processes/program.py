"""The supervisor's data about a program and its process."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

HEALTHY_SECONDS = 10.0
BACKOFF_SECONDS = (0.0, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
# The time limit for the first heartbeat of a program that sends heartbeats.
START_SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class Program:
    """A program that the supervisor keeps running. Programs with a higher ``stage`` are stopped first.

    With ``announces_ready``, the program writes a byte to the descriptor ``READY_FD`` once it serves. With
    ``silence_seconds``, it must write a byte every second, and is replaced if it writes none for that time.
    With ``asks_permission`` (supervised.py), it reads a byte from ``PERMIT_FD`` before it loads code that
    may be edited, and another byte before it serves. After ``leave_signal``, it finishes its work within
    ``leave_seconds`` and exits.
    """

    name: str
    argv: tuple[str, ...]
    stage: int
    environment: Mapping[str, str] = field(default_factory=dict)
    descriptors: tuple[int, ...] = ()
    grace_seconds: float = 5.0
    announces_ready: bool = False
    silence_seconds: float = 0.0
    asks_permission: bool = False
    leave_signal: signal.Signals = signal.SIGTERM
    leave_seconds: float = 5.0


class Child:
    """A process of a program. It runs or waits for its restart.

    Without ``kept``, it is not restarted, because it is a candidate or leaving. ``withheld`` is the output of
    a candidate.
    """

    def __init__(self, program: Program, *, kept: bool = True) -> None:
        self.program = program
        self.kept = kept
        self.withheld: list[str] | None = None if kept else []
        self.leaves_until: float | None = None
        self.process: subprocess.Popen[bytes] | None = None
        self.loaded = self.ready = False
        self.permits = 2 if kept else 0
        self.permit_pipe = -1
        self.silent = 0.0
        self.started_at = 0.0
        self.start_at = 0.0
        self.quick_deaths = 0
        self.restarted = False
        self.partial = b""

    @property
    def alive(self) -> bool:
        """True until the process has been reaped."""
        return self.process is not None

    def signal_group(self, number: int) -> None:
        """Send a signal to the process and its descendants."""
        if self.process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)

    def permit(self, permits: int) -> None:
        """Permit the process to load its code (1), or to load and serve it (2).

        It may use the permission later.
        """
        missing, self.permits = permits - self.permits, max(permits, self.permits)
        if missing > 0 and self.permit_pipe >= 0:
            with suppress(BrokenPipeError):
                os.write(self.permit_pipe, b"1" * missing)

    def add_silence(self, seconds: float) -> bool:
        """Add ``seconds`` to the time without a heartbeat. Return True if the time exceeds the limit."""
        if self.permits == 0 or (self.loaded and self.permits == 1):
            return False  # It waits for permission.
        self.silent += seconds
        return 0.0 < self.silence_limit < self.silent

    @property
    def silence_limit(self) -> float:
        """The time allowed without a heartbeat in seconds, or 0 for no limit."""
        limit = self.program.silence_seconds
        return limit if self.ready or not limit else START_SECONDS

    def delay_after_death(self, now: float) -> float:
        """Return the seconds before the next start: 0 after a single death, and more in a crash loop."""
        self.quick_deaths = self.quick_deaths + 1 if now - self.started_at < HEALTHY_SECONDS else 0
        return BACKOFF_SECONDS[min(max(self.quick_deaths - 1, 0), len(BACKOFF_SECONDS) - 1)]
