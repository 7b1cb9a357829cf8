"""Control of the measured servers, each pinned to the server's core; load runs on the other."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.servers.live import resident_bytes

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 40.0
STOP_SECONDS = 10.0


class ServerDied(Exception):
    """A measured server did not start or exited; the text has the end of its log."""


def cores() -> tuple[int, int] | None:
    """Return (server core, load core), or None where pinning is impossible."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    found = sorted(os.sched_getaffinity(0))
    return (found[0], found[1]) if len(found) > 1 else None


@contextmanager
def load_core() -> Iterator[None]:
    """Pin this process to the load's core, if there are two, and prevent that core from idling.

    Waking a halted virtual core costs a server that sends to it several µs, at random intervals. The
    process that keeps it awake gets only processor time that no other process needs.
    """
    pins = cores()
    if pins is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {pins[1]})
    try:
        with _awake(pins[1]):
            yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def _awake(core: int) -> Iterator[None]:
    code = (
        "import os\n"
        "os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\n"
        f"os.sched_setaffinity(0, {{{core}}})\n"
        f"while os.getppid() == {os.getpid()}: pass"
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass
class Process:
    """One child with its log in a file, pinned to ``core`` if given."""

    command: list[str]
    log: Path
    environment: dict[str, str] = field(default_factory=dict)
    core: int | None = None
    child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.child = subprocess.Popen(
                self.command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self.environment},
            )
        if self.core is not None:
            os.sched_setaffinity(self.child.pid, {self.core})

    @property
    def pid(self) -> int:
        assert self.child is not None
        return self.child.pid

    @property
    def rss(self) -> int:
        """Resident memory in bytes."""
        return resident_bytes(self.pid)

    def wait_for_port(self, port: int) -> None:
        """Wait until ``port`` accepts connections. Raise ServerDied with the end of the log."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.child is None or self.child.poll() is not None:
                break
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                return
            time.sleep(0.05)
        raise ServerDied(f"{' '.join(self.command)}\n{self.log.read_text(errors='replace')[-3000:]}")

    def stop(self) -> None:
        if self.child is None or self.child.poll() is not None:
            return
        self.child.send_signal(signal.SIGTERM)
        try:
            self.child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()


def uvicorn(application: str, port: int, *, lifespan: str = "on") -> list[str]:
    """Return the command line of the uvicorn of every measured server: uvloop, httptools, no access log."""
    return [
        sys.executable,
        "-m",
        "uvicorn",
        application,
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--loop",
        "uvloop",
        "--http",
        "httptools",
        "--no-access-log",
        "--log-level",
        "warning",
        "--lifespan",
        lifespan,
        "--backlog",
        "4096",
    ]
