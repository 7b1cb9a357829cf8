"""Owns what the supervisor knows of one program and of the process that runs it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

HEALTHY_SECONDS = 10.0
BACKOFF_SECONDS = (0.0, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
# How long a program may take to its first sign of life, where its signs are looked for.
START_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Program:
    """One child to keep alive; programs of a higher ``stage`` are stopped before those of a lower one.

    One that ``announces_ready`` writes a byte to the descriptor ``READY_FD`` when it serves. With
    ``silence_seconds`` it goes on writing one each second, and is replaced when none came for so long.

    One that ``asks_permission`` (supervised.py) reads a byte from ``PERMIT_FD`` before it loads the code that
    may be edited, and another before it serves. Asked by ``leave_signal``, it finishes what it has begun,
    for ``leave_seconds``, and ends.
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
    """One running, or waiting to be started again, process of a program.

    One that is not ``kept`` stays dead: it is on trial, or leaves. What it says on trial is ``withheld``.
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
        """Whether its process has not been reaped."""
        return self.process is not None

    def signal_group(self, number: int) -> None:
        """Send a signal to the process and everything it started."""
        if self.process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)

    def permit(self, permits: int) -> None:
        """Let it load its code (1), or serve as well (2); it may ask later."""
        missing, self.permits = permits - self.permits, max(permits, self.permits)
        if missing > 0 and self.permit_pipe >= 0:
            with suppress(BrokenPipeError):
                os.write(self.permit_pipe, b"1" * missing)

    def hear_nothing(self, seconds: float) -> bool:
        """Count more silence; whether it has been too long by now."""
        if self.permits == 0 or (self.loaded and self.permits == 1):
            return False  # It waits for us.
        self.silent += seconds
        return 0.0 < self.silence_limit < self.silent

    @property
    def silence_limit(self) -> float:
        """How many seconds it may be silent now; 0 for ever."""
        limit = self.program.silence_seconds
        return limit if self.ready or not limit else START_SECONDS

    def delay_after_death(self, now: float) -> float:
        """Seconds to wait before the next start: none for a single death, growing in a crash loop."""
        self.quick_deaths = self.quick_deaths + 1 if now - self.started_at < HEALTHY_SECONDS else 0
        return BACKOFF_SECONDS[min(max(self.quick_deaths - 1, 0), len(BACKOFF_SECONDS) - 1)]
