"""The supervisor of child processes: it starts, watches and replaces them, and stops them in order."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from types import FrameType
from typing import IO

from mcp_app.observability.logs import PROCESS, json_line
from mcpsite.pid_files import PidFiles
from mcpsite.processes.program import Child, Program

CHILD = str(Path(__file__).with_name("child.py"))
LINE_LIMIT = 64 * 1024
TICK_SECONDS = 0.5
# Limit for one turn of the loop. If a turn took longer, the supervisor or the machine was slow, and the
# children are not to blame.
TURN_SECONDS_MAX = 1.0


class CrashLoop(Exception):
    """Raised if a child dies several times before the server has been healthy for the first time."""


def _due(child: Child) -> bool:
    return time.monotonic() >= child.start_at


def _pipe(reads: ExitStack, writes: ExitStack) -> tuple[int, int]:
    """Create a pipe. Each stack closes one of its ends."""
    ends = os.pipe()
    for stack, end in zip((reads, writes), ends, strict=True):
        stack.callback(os.close, end)
    return ends


def _as_json(name: str, line: str) -> str:
    """Return a child's line unchanged if it is JSON. Wrap any other line in JSON."""
    if line.startswith("{"):
        with suppress(ValueError):
            json.loads(line)
            return line
    return json_line(logger=f"mcp.{name}" if name == "up" else name, message=line, process=name)


class Supervisor:
    """A supervisor that starts programs in their own sessions, replaces dead programs, and stops all.

    It has a single thread. The selector waits for output, for signals and for the next restart.
    """

    def __init__(self, pid_files: PidFiles, *, directory: Path, out: IO[str], as_json: bool = False) -> None:
        """Create the supervisor. With ``as_json``, it writes each line as a JSON object."""
        self._pid_files = pid_files
        self._directory = directory
        self._out = out
        self._as_json = as_json
        self._children: list[Child] = []
        self._selector = selectors.DefaultSelector()
        self._stops = 0
        self._stopping = False
        self._turned_at = time.monotonic()
        self._pid_fault = ""
        self._wake_read, self._wake_write = os.pipe()
        for descriptor in (self._wake_read, self._wake_write):
            os.set_blocking(descriptor, False)
        self._selector.register(self._wake_read, selectors.EVENT_READ, self._drain_wake_ups)

    @property
    def stop_requested(self) -> bool:
        """True after Ctrl-C or TERM."""
        return self._stops > 0

    @property
    def _ends(self) -> bool:
        return self._stopping or self.stop_requested

    def listen_to_signals(self) -> None:
        """Treat INT and TERM as requests to stop. The second one kills. CHLD only wakes the loop."""
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGINT, self._on_stop_signal)
        signal.signal(signal.SIGTERM, self._on_stop_signal)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        if hasattr(signal, "SIGHUP"):
            signal.signal(signal.SIGHUP, self._on_stop_signal)

    def attend(self, descriptor: int, callback: Callable[[], None]) -> None:
        """Call ``callback`` whenever ``descriptor`` is readable."""
        self._selector.register(descriptor, selectors.EVENT_READ, callback)

    def start(self, program: Program) -> Child:
        """Start a program and keep it running."""
        return self._add(Child(program))

    def try_out(self, program: Program) -> Child:
        """Start a candidate to replace a running program.

        The candidate is not restarted, and its output is withheld until ``keep`` is called.
        """
        return self._add(Child(program, kept=False))

    def keep(self, child: Child) -> None:
        """Let a candidate replace the program with the same name, and keep it running."""
        child.kept = True
        if child.process is not None:
            self._pid_files.write(child.program.name, child.process.pid)
            self._settle_pid_files()
        self.write_withheld(child)

    def leave(self, child: Child) -> None:
        """Let a child finish its work and exit. It is not restarted."""
        child.kept = False
        child.leaves_until = time.monotonic() + child.program.leave_seconds
        if child.process is not None:
            with suppress(ProcessLookupError):
                child.process.send_signal(child.program.leave_signal)

    def discard(self, child: Child) -> None:
        """Kill a candidate and drop its output."""
        child.kept, child.withheld = False, []
        child.signal_group(signal.SIGKILL)

    def write_withheld(self, child: Child) -> None:
        """Write the withheld output of a child, and stop withholding it."""
        lines, child.withheld = child.withheld or [], None
        for line in lines:
            self.write_log(child.program.name, line)

    def ready(self, names: Iterable[str] | None = None) -> bool:
        """Return True if all programs that announce readiness, or those in ``names``, are ready."""
        wanted = None if names is None else set(names)
        return all(
            child.ready
            for child in self._children
            if child.program.announces_ready and (wanted is None or child.program.name in wanted)
        )

    def run_until(self, condition: Callable[[], bool], seconds: float, *, every: float = 0.1) -> bool:
        """Run until ``condition`` is True. Return False after a stop request or a timeout.

        Raise CrashLoop.
        """
        deadline = time.monotonic() + seconds
        while not self.stop_requested and time.monotonic() < deadline:
            if condition():
                return True
            self._turn(every)
            for child in self._children:
                if child.quick_deaths >= 3:
                    raise CrashLoop(f"{child.program.name} keeps crashing. Its output is above.")
        return False

    def run(self, each_turn: Callable[[], None] = lambda: None) -> None:
        """Run until a stop request."""
        while not self.stop_requested:
            self._turn(TICK_SECONDS)
            each_turn()

    def stop(self) -> None:
        """Stop all programs, those with the highest stage first. A second signal kills the rest at once."""
        if self._stopping:
            return
        self._stopping = True
        if self.stop_requested:
            self.write_log("up", "stopping")
        for stage in sorted({child.program.stage for child in self._children}, reverse=True):
            self._stop_all([child for child in self._children if child.program.stage == stage])
        signal.set_wakeup_fd(-1)
        self._selector.close()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def write_log(self, name: str, line: str) -> None:
        """Write one log line under a name."""
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

    def _add(self, child: Child) -> Child:
        self._children.append(child)
        self._start(child)
        return child

    def _start(self, child: Child) -> None:
        """Start a child. Try again later if the system has no free process or file descriptor."""
        child.started_at = time.monotonic()
        try:
            self._spawn(child)
        except OSError as error:
            child.signal_group(signal.SIGKILL)  # It may have started, but nobody would read its output.
            self._start_later(child, f"cannot be started ({error}); trying again")

    def _start_later(self, child: Child, why: str) -> None:
        now = time.monotonic()
        delay = child.delay_after_death(now)
        child.restarted = True
        child.start_at = now + delay
        self.write_log("up", f"{child.program.name} {why}{f' in {delay:g} s' if delay else ''}")

    def _spawn(self, child: Child) -> None:
        program = child.program
        environment = {**os.environ, **program.environment, "PYTHONUNBUFFERED": "1", PROCESS: program.name}
        descriptors = program.descriptors
        with ExitStack() as ours, ExitStack() as theirs:
            ready_read, ready_write = _pipe(ours, theirs)
            permit_read, permit_write = _pipe(theirs, ours)
            os.write(permit_write, b"1" * child.permits)
            if program.announces_ready:
                environment["READY_FD"] = str(ready_write)
                descriptors = (*descriptors, ready_write)
            if program.asks_permission:
                environment["PERMIT_FD"] = str(permit_read)
                descriptors = (*descriptors, permit_read)
            process = self._open(program, environment, descriptors)
            ours.pop_all()
        child.process, child.permit_pipe = process, permit_write
        child.loaded = child.ready = False
        child.silent = 0.0
        self._selector.register(
            ready_read, selectors.EVENT_READ, lambda: self._on_sign_of_life(child, process, ready_read)
        )
        output = process.stdout
        if output is not None:
            os.set_blocking(output.fileno(), False)
            self._selector.register(output, selectors.EVENT_READ, lambda: self._on_output(child, output))
        if child.kept:
            self._pid_files.write(program.name, process.pid)
            self._settle_pid_files()

    def _open(
        self, program: Program, environment: dict[str, str], descriptors: tuple[int, ...]
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603 - our own programs, no shell
            [sys.executable, "-I", "-S", CHILD, str(os.getpid()), *program.argv],
            cwd=self._directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=descriptors,
            start_new_session=True,  # Ctrl-C reaches only the supervisor, which stops children in order.
        )

    def _settle_pid_files(self) -> None:
        """Update the pid files. If the disk is full, they are updated later."""
        error = self._pid_files.settle()
        fault = "" if error is None else error.strerror or str(error)
        if fault and fault != self._pid_fault:
            self.write_log("up", f"the pid files cannot be written: {fault}")
        self._pid_fault = fault

    def _turn(self, seconds: float) -> None:
        """Wait up to ``seconds`` for events. Then reap and restart children."""
        for key, _ in self._selector.select(self._wait(seconds)):
            key.data()
        now = time.monotonic()
        passed, self._turned_at = min(now - self._turned_at, TURN_SECONDS_MAX), now
        for child in self._children:
            self._reap(child)
            self._end_silent(child, passed)
            if not child.alive and child.kept and not self._ends and _due(child):
                self._start(child)
        self._children = [child for child in self._children if child.alive or child.kept]
        self._settle_pid_files()

    def _wait(self, seconds: float) -> float:
        """Return ``seconds``, or less if a restart is due earlier."""
        now = time.monotonic()
        due = [child.start_at - now for child in self._children if child.kept and child.process is None]
        return 0.1 if self._stopping else max(0.0, min([seconds, *due]))

    def _reap(self, child: Child) -> None:
        if child.process is None or child.process.poll() is None:
            return
        process, child.process = child.process, None
        os.close(child.permit_pipe)
        child.permit_pipe = -1
        if child.kept:
            self._pid_files.remove(child.program.name)
            self._settle_pid_files()
        # Otherwise, descendants of the dead process would continue to run beside its replacement.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        if process.stdout is not None:
            while not process.stdout.closed:
                self._on_output(child, process.stdout)
        if not child.kept:
            return
        if self._ends:
            self.write_log("up", f"{child.program.name} stopped")
            return
        self._start_later(child, f"ended with {process.returncode}; starting it again")

    def _end_silent(self, child: Child, passed: float) -> None:
        """Kill a blocked process (SIGSTOP, stuck event loop). The kernel still accepts connections for it."""
        if not child.alive or self._ends:
            return
        if child.leaves_until is not None:
            if time.monotonic() > child.leaves_until:
                child.signal_group(signal.SIGKILL)
        elif child.add_silence(passed):
            self.write_log(
                "up", f"{child.program.name} did not respond for {child.silence_limit:g} s and is stopped"
            )
            child.ready, child.silent = False, 0.0
            child.signal_group(signal.SIGKILL)

    def _on_output(self, child: Child, output: IO[bytes]) -> None:
        try:
            chunk = os.read(output.fileno(), LINE_LIMIT)
        except BlockingIOError:
            if child.process is not None:
                return
            chunk = b""  # A process that left the group still has the pipe open. Do not wait for it.
        except OSError:
            chunk = b""
        if not chunk:
            with suppress(KeyError):
                self._selector.unregister(output)
            output.close()
        *lines, child.partial = (child.partial + chunk).split(b"\n")
        if child.partial and (not chunk or len(child.partial) >= LINE_LIMIT):
            lines, child.partial = [*lines, child.partial], b""
        for line in lines:
            text = line.decode(errors="replace").rstrip("\r")
            if child.withheld is None:
                self.write_log(child.program.name, text)
            else:
                child.withheld.append(text)

    def _on_sign_of_life(self, child: Child, process: subprocess.Popen[bytes], descriptor: int) -> None:
        # Another process may still have the pipe of an earlier process open.
        signs = os.read(descriptor, LINE_LIMIT)
        if signs and child.process is process:
            child.loaded, child.silent = True, 0.0
            if b"1" in signs and not child.ready:
                child.ready = True
                if child.restarted:
                    self.write_log("up", f"{child.program.name} serves again")
        else:
            self._selector.unregister(descriptor)
            os.close(descriptor)

    def _on_stop_signal(self, number: int, frame: FrameType | None) -> None:
        self._stops += 1

    def _drain_wake_ups(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._wake_read, 4096)
