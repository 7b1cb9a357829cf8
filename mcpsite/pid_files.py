"""The pid files ``DATA_DIR/run/*.pid``. Every file that exists is correct."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path


class AlreadyRunning(Exception):
    """Raised if another supervisor uses this data folder."""


class PidFiles:
    """The pid files of one supervisor. The lock on ``up.pid`` excludes a second supervisor."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = -1
        # Changes that have not been written: the process id by name, or None to remove the file.
        self._pending: dict[str, int | None] = {}

    def claim(self) -> None:
        """Write ``up.pid``, and remove files of earlier runs. Raise AlreadyRunning."""
        path = self._folder / "up.pid"
        self._lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            # The kernel releases the lock when the process dies, so an old file never prevents a start.
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = path.read_text().strip() or "unknown"
            os.close(self._lock)
            raise AlreadyRunning(
                f"Process {owner} already runs this server from {self._folder.parent}: "
                "stop it first, or set DATA_DIR to another folder."
            ) from None
        for stale in self._folder.glob("*.pid"):
            if stale != path:
                stale.unlink(missing_ok=True)
        os.ftruncate(self._lock, 0)
        os.write(self._lock, f"{os.getpid()}\n".encode())

    def write(self, name: str, pid: int) -> None:
        """Record the process id for ``name``. ``settle`` writes it."""
        self._pending[name] = pid

    def remove(self, name: str) -> None:
        """Record that ``name`` does not run. ``settle`` removes its file."""
        self._pending[name] = None

    def settle(self) -> OSError | None:
        """Write and remove files as recorded. Return the error if a file has to be tried again."""
        fault = None
        for name, pid in list(self._pending.items()):
            try:
                self._settle(name, pid)
            except OSError as error:
                fault = error
            else:
                del self._pending[name]
        return fault

    def _settle(self, name: str, pid: int | None) -> None:
        path, draft = self._folder / f"{name}.pid", self._folder / f".{name}.pid"
        if pid is None:
            path.unlink(missing_ok=True)
            return
        try:
            draft.write_text(f"{pid}\n")
            draft.replace(path)
        except OSError:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            raise

    def release(self) -> None:
        """Remove ``up.pid`` and release the lock."""
        self.remove("up")
        self.settle()
        os.close(self._lock)
