"""The supervisor's description of a program and its process."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

HEALTHY_SECONDS = 10.0
BACKOFF_SECONDS = (0.0, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
# The limit until a program's first sign of life, if it sends any.
START_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Program:
    """A child to keep running; programs of a higher ``stage`` are stopped before those of a lower one.

    With ``announces_ready`` it writes a byte to the descriptor ``READY_FD`` when it serves. With
    ``silence_seconds`` it must write one each second, and is replaced after that time without one. With
    ``asks_permission`` (supervised.py) it reads a byte from ``PERMIT_FD`` before it loads code that may be
    edited, and another before it serves. After ``leave_signal`` it finishes its work within ``leave_seconds``
    and exits.
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
    """A process of a program, running or waiting for a restart.

    Without ``kept`` it is not restarted: it is on trial, or leaves. ``withheld`` is its output on trial.
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
        """True until its process is reaped."""
        return self.process is not None

    def signal_group(self, number: int) -> None:
        """Send a signal to the process and its descendants."""
        if self.process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)

    def permit(self, permits: int) -> None:
        """Allow the process to load its code (1), or also to serve (2), now or later."""
        missing, self.permits = permits - self.permits, max(permits, self.permits)
        if missing > 0 and self.permit_pipe >= 0:
            with suppress(BrokenPipeError):
                os.write(self.permit_pipe, b"1" * missing)

    def hear_nothing(self, seconds: float) -> bool:
        """Add to the time of silence; return True if it exceeds the limit."""
        if self.permits == 0 or (self.loaded and self.permits == 1):
            return False  # It waits for permission.
        self.silent += seconds
        return 0.0 < self.silence_limit < self.silent

    @property
    def silence_limit(self) -> float:
        """The allowed silence in seconds; 0 for no limit."""
        limit = self.program.silence_seconds
        return limit if self.ready or not limit else START_SECONDS

    def delay_after_death(self, now: float) -> float:
        """Return the seconds to wait before the next start: 0 for a single death, growing in a crash loop."""
        self.quick_deaths = self.quick_deaths + 1 if now - self.started_at < HEALTHY_SECONDS else 0
        return BACKOFF_SECONDS[min(max(self.quick_deaths - 1, 0), len(BACKOFF_SECONDS) - 1)]
