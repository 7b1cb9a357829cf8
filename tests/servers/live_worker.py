"""One Celery worker of a LiveServer: a main process and its children, killable as a group or one by one."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.servers.warm import Installations, Program

STOP_SECONDS = 20.0


def _ended(process: psutil.Process) -> bool:
    """Return True if no thread of a process runs. It is a zombie once its main thread has exited."""
    return process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1


@dataclass
class WorkerProcess:
    """One worker group as ``manage.py up`` runs it, without the beat."""

    number: int
    log: Path
    installations: Installations
    concurrency: int = 2
    child: Program | None = None

    @property
    def pid(self) -> int:
        """The id of the main process, which is also the group id."""
        assert self.child is not None
        return self.child.pid

    @property
    def alive(self) -> bool:
        return self.child is not None and self.child.poll() is None

    @property
    def children(self) -> list[int]:
        """The ids of the processes that run jobs."""
        found = []
        with suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    if not _ended(child):
                        found.append(child.pid)
        return found

    @property
    def members(self) -> list[int]:
        """The ids of all processes of the group, even after the main process has died."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, ProcessLookupError):
                if os.getpgid(process.pid) == self.pid and not _ended(process):
                    found.append(process.pid)
        return found

    def start(self, environment: dict[str, str]) -> None:
        arguments = (
            *("--quiet", "-A", "mcpsite", "worker"),
            *("--concurrency", str(self.concurrency), "--hostname", f"worker-{self.number}@%h"),
            *("--without-gossip", "--without-mingle", "--loglevel", "WARNING"),
        )
        with self.log.open("ab") as log:
            self.child = self.installations.of(environment).start(
                "celery", *arguments, output=log.fileno(), own_group=True
            )

    def signal_group(self, how: signal.Signals) -> None:
        """Send a signal to the main process and all its children at once."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, how)

    def kill_group(self) -> None:
        """Kill all processes at once without cleanup, like a lost machine."""
        self.signal_group(signal.SIGKILL)
        assert self.child is not None
        self.child.wait(STOP_SECONDS)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Send the signal to the main process and wait, then kill the remaining processes."""
        if self.child is None:
            return 0
        self.signal_group(signal.SIGCONT)
        if self.child.poll() is None:
            self.child.send_signal(how)
        try:
            return self.child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            return -1
        finally:
            self.signal_group(signal.SIGKILL)
            self.child.wait()
