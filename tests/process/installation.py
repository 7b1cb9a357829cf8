"""One installation in a temporary folder, driven through ``manage.py up`` as a user would."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from tests.bounds import SLACK
from tests.samples.migrated import create_tables

ROOT = Path(__file__).resolve().parents[2]
PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV")
# A first start applies all migrations: minutes on a machine with ten processes per core.
START_SECONDS = 300.0
STOP_SECONDS = 30.0


def free_port() -> int:
    """Return an unused port."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Return when the condition holds; fail after ``seconds``."""
    deadline = time.monotonic() + seconds + SLACK
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.01)


class Installation:
    """A server started by ``manage.py up``, with records of its output and processes.

    Its tables exist before the first start, which creates the rest, unless it starts ``from_nothing``.
    """

    def __init__(self, folder: Path, *options: str, from_nothing: bool = False, **settings: str) -> None:
        self.data = folder / "data"
        self.from_nothing = from_nothing
        self.options = options
        self.port = free_port()
        inherited = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        self.environment = {**inherited, "DATA_DIR": str(self.data), "PORT": str(self.port), **settings}
        self.lines: list[str] = []
        self.process: subprocess.Popen[str] | None = None
        self._seen: set[psutil.Process] = set()

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    @property
    def running(self) -> subprocess.Popen[str]:
        assert self.process is not None
        return self.process

    def start(self) -> None:
        """Run the command."""
        database = self.data / "db.sqlite3"
        if not (self.from_nothing or database.exists()):
            create_tables(ROOT, self.data)
        self.lines = []
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", "up", *self.options],
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        threading.Thread(target=self._read, args=(self.process,), daemon=True).start()

    def start_healthy(self) -> str:
        """Start and wait for the healthy block; return its text."""
        self.start()
        wait_until(
            lambda: "  Stop     Ctrl-C" in self.lines or self.running.poll() is not None,
            START_SECONDS,
            "healthy",
        )
        assert self.running.poll() is None, self.output
        self.remember()
        first = self.lines.index(next(line for line in self.lines if line.startswith("  MCP")))
        return "\n".join(self.lines[first : self.lines.index("  Stop     Ctrl-C") + 1])

    def value(self, pattern: str) -> str:
        """Return the first group of a pattern in the output."""
        found = re.search(pattern, self.output)
        assert found, f"{pattern!r} is not in:\n{self.output}"
        return found[1]

    def remember(self) -> None:
        """Record every process currently running below the started one."""
        ours = psutil.Process(self.running.pid)
        self._seen |= {ours, *ours.children(recursive=True)}

    def survivors(self) -> list[psutil.Process]:
        """Return recorded processes that still run."""
        return [
            process
            for process in self._seen
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE
        ]

    def pid(self, name: str) -> int:
        """Return the pid in the pid file of a child, or 0 if there is none."""
        try:
            return int((self.data / "run" / f"{name}.pid").read_text())
        except FileNotFoundError:
            return 0

    def pid_files(self) -> set[str]:
        return {path.stem for path in (self.data / "run").glob("*.pid")}

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        """Press Ctrl-C; return the exit code."""
        self.remember()
        self.running.send_signal(number)
        return self.running.wait(STOP_SECONDS)

    def close(self) -> None:
        """End every remaining process."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for process in self.survivors():
            process.kill()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout as output:
            for line in output:
                self.lines.append(line.rstrip("\n"))
