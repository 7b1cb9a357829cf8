"""Owns child processes: start, watch, replace, stop in order; knows nothing of what they do."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import IO

from mcp_app.observability.logs import PROCESS, json_line
from mcpsite.pid_files import PidFiles

CHILD = str(Path(__file__).with_name("child.py"))
LINE_LIMIT = 64 * 1024
HEALTHY_SECONDS = 10.0
BACKOFF_SECONDS = (0.0, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
TICK_SECONDS = 0.5
# A turn that took longer was slow because we were, or the whole machine: no child can be blamed for it.
TURN_SECONDS_MAX = 1.0
# How long a program may take to its first sign of life, where its signs are looked for.
START_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Program:
    """One child to keep alive; programs of a higher ``stage`` are stopped before those of a lower one.

    One that ``announces_ready`` writes a byte to the descriptor ``READY_FD`` when it serves. With
    ``silence_seconds`` it goes on writing one each second, and is replaced when none came for so long.
    """

    name: str
    argv: tuple[str, ...]
    stage: int
    environment: Mapping[str, str] = field(default_factory=dict)
    descriptors: tuple[int, ...] = ()
    grace_seconds: float = 5.0
    announces_ready: bool = False
    silence_seconds: float = 0.0


class CrashLoop(Exception):
    """A child died again and again before the service was healthy for the first time."""


class Child:
    """One running, or waiting to be started again, process of a program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.process: subprocess.Popen[bytes] | None = None
        self.ready = False
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

    def hear_nothing(self, seconds: float) -> bool:
        """Count more silence; whether it has been too long by now."""
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


def _due(child: Child) -> bool:
    return time.monotonic() >= child.start_at


def _as_json(name: str, line: str) -> str:
    """A line of a child that writes JSON as it is, any other wrapped."""
    if line.startswith("{"):
        with suppress(ValueError):
            json.loads(line)
            return line
    return json_line(logger=f"mcp.{name}" if name == "up" else name, message=line, process=name)


class Supervisor:
    """Starts programs in their own sessions, replaces the dead and stops them in order.

    One thread: the selector waits for the children's output, for signals and for the next restart.
    """

    def __init__(self, pid_files: PidFiles, *, directory: Path, out: IO[str], as_json: bool = False) -> None:
        """``as_json``: each line is written as one JSON object, as the children's own lines are then."""
        self._pid_files = pid_files
        self._directory = directory
        self._out = out
        self._as_json = as_json
        self._children: list[Child] = []
        self._selector = selectors.DefaultSelector()
        self._stops = 0
        self._stopping = False
        self._turned_at = time.monotonic()
        self._wake_read, self._wake_write = os.pipe()
        for descriptor in (self._wake_read, self._wake_write):
            os.set_blocking(descriptor, False)
        self._selector.register(self._wake_read, selectors.EVENT_READ, self._drain_wake_ups)

    @property
    def stop_requested(self) -> bool:
        """Whether Ctrl-C or TERM has been received."""
        return self._stops > 0

    def listen_to_signals(self) -> None:
        """Take INT and TERM as the wish to stop; the second one kills. CHLD only wakes the loop."""
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGINT, self._on_stop_signal)
        signal.signal(signal.SIGTERM, self._on_stop_signal)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        if hasattr(signal, "SIGHUP"):
            signal.signal(signal.SIGHUP, self._on_stop_signal)

    def start(self, program: Program) -> None:
        """Start a program and keep it alive from now on."""
        child = Child(program)
        self._children.append(child)
        self._spawn(child)

    def ready(self, names: Iterable[str] | None = None) -> bool:
        """Whether every program that announces readiness has done so."""
        wanted = None if names is None else set(names)
        return all(
            child.ready
            for child in self._children
            if child.program.announces_ready and (wanted is None or child.program.name in wanted)
        )

    def run_until(self, condition: Callable[[], bool], seconds: float, *, every: float = 0.1) -> bool:
        """Serve the children until ``condition``; False when stopped or out of time. Raises CrashLoop."""
        deadline = time.monotonic() + seconds
        while not self.stop_requested and time.monotonic() < deadline:
            if condition():
                return True
            self._turn(every)
            for child in self._children:
                if child.quick_deaths >= 3:
                    raise CrashLoop(f"{child.program.name} keeps dying; its own words are above.")
        return False

    def run(self) -> None:
        """Serve the children until the wish to stop comes."""
        while not self.stop_requested:
            self._turn(TICK_SECONDS)

    def stop(self) -> None:
        """Stop everything, the highest stage first; a second signal kills at once."""
        if self._stopping:
            return
        self._stopping = True
        if self.stop_requested:
            self.say("up", "stopping")
        for stage in sorted({child.program.stage for child in self._children}, reverse=True):
            self._stop_all([child for child in self._children if child.program.stage == stage])
        signal.set_wakeup_fd(-1)
        self._selector.close()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def say(self, name: str, line: str) -> None:
        """Write one line of log under a name."""
        with suppress(OSError, ValueError):
            self._out.write((_as_json(name, line) if self._as_json else f"{name:<8}| {line}") + "\n")
            self._out.flush()

    def _stop_all(self, children: list[Child]) -> None:
        for child in children:
            if child.process is not None:
                with suppress(ProcessLookupError):
                    child.process.terminate()
        deadline = time.monotonic() + max((child.program.grace_seconds for child in children), default=0.0)
        while any(child.alive for child in children) and time.monotonic() < deadline and self._stops < 2:
            self._turn(0.1)
        for child in children:
            child.signal_group(signal.SIGKILL)
        while any(child.alive for child in children):
            self._turn(0.1)

    def _spawn(self, child: Child) -> None:
        program = child.program
        ready_read, ready_write = os.pipe()
        environment = {**os.environ, **program.environment, "PYTHONUNBUFFERED": "1", PROCESS: program.name}
        descriptors = program.descriptors
        if program.announces_ready:
            environment["READY_FD"] = str(ready_write)
            descriptors = (*descriptors, ready_write)
        child.process = subprocess.Popen(  # noqa: S603 - our own programs, no shell
            [sys.executable, "-I", "-S", CHILD, str(os.getpid()), *program.argv],
            cwd=self._directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=descriptors,
            start_new_session=True,  # Ctrl-C is for us; the children are stopped in order.
        )
        self._pid_files.write(program.name, child.process.pid)
        child.started_at = time.monotonic()
        child.ready, child.silent = False, 0.0
        os.close(ready_write)
        process = child.process
        self._selector.register(
            ready_read, selectors.EVENT_READ, lambda: self._on_sign_of_life(child, process, ready_read)
        )
        output = child.process.stdout
        if output is not None:
            os.set_blocking(output.fileno(), False)
            self._selector.register(output, selectors.EVENT_READ, lambda: self._on_output(child, output))

    def _turn(self, seconds: float) -> None:
        """Wait for something to happen, at most ``seconds``; then reap and restart."""
        for key, _ in self._selector.select(self._wait(seconds)):
            key.data()
        now = time.monotonic()
        passed, self._turned_at = min(now - self._turned_at, TURN_SECONDS_MAX), now
        for child in self._children:
            self._reap(child)
            self._end_silent(child, passed)
            if not child.alive and not self._stopping and not self.stop_requested and _due(child):
                self._spawn(child)

    def _wait(self, seconds: float) -> float:
        """``seconds``, or less when a restart is due before."""
        now = time.monotonic()
        due = [child.start_at - now for child in self._children if child.process is None]
        return 0.1 if self._stopping else max(0.0, min([seconds, *due]))

    def _reap(self, child: Child) -> None:
        if child.process is None or child.process.poll() is None:
            return
        process, child.process = child.process, None
        self._pid_files.remove(child.program.name)
        # What the dead one started would keep working beside its replacement.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        if process.stdout is not None:
            while not process.stdout.closed:
                self._on_output(child, process.stdout)
        if self._stopping or self.stop_requested:
            self.say("up", f"{child.program.name} stopped")
            return
        now = time.monotonic()
        delay = child.delay_after_death(now)
        child.restarted = True
        child.start_at = now + delay
        wait = f" in {delay:g} s" if delay else ""
        self.say("up", f"{child.program.name} ended with {process.returncode}; starting it again{wait}")

    def _end_silent(self, child: Child, passed: float) -> None:
        """End a process that stands still (SIGSTOP, a stuck event loop): the kernel still accepts for it."""
        if child.alive and not (self._stopping or self.stop_requested) and child.hear_nothing(passed):
            self.say("up", f"{child.program.name} stood still for {child.silence_limit:g} s and is ended")
            child.ready, child.silent = False, 0.0
            child.signal_group(signal.SIGKILL)

    def _on_output(self, child: Child, output: IO[bytes]) -> None:
        try:
            chunk = os.read(output.fileno(), LINE_LIMIT)
        except BlockingIOError:
            if child.process is not None:
                return
            chunk = b""  # A process that left the group still holds the pipe; it is not worth waiting for.
        if not chunk:
            self._selector.unregister(output)
            output.close()
        *lines, child.partial = (child.partial + chunk).split(b"\n")
        if child.partial and (not chunk or len(child.partial) >= LINE_LIMIT):
            lines, child.partial = [*lines, child.partial], b""
        for line in lines:
            self.say(child.program.name, line.decode(errors="replace").rstrip("\r"))

    def _on_sign_of_life(self, child: Child, process: subprocess.Popen[bytes], descriptor: int) -> None:
        # The pipe of a process before it may be held open by what that left behind.
        if os.read(descriptor, LINE_LIMIT) and child.process is process:
            if not child.ready and child.restarted:
                self.say("up", f"{child.program.name} serves again")
            child.ready, child.silent = True, 0.0
        else:
            self._selector.unregister(descriptor)
            os.close(descriptor)

    def _on_stop_signal(self, number: int, frame: FrameType | None) -> None:
        self._stops += 1

    def _drain_wake_ups(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._wake_read, 4096)
