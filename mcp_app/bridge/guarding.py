"""The bridge's side of its guard, which kills process groups after the bridge ended."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO

GUARD = str(Path(__file__).with_name("guard.py"))


class Guard:
    """The guard process, and the groups that it knows. A guard that was killed is replaced."""

    def __init__(self) -> None:
        self._groups: dict[int, str] = {}
        self._process = self._start()

    def add(self, group: int, mark: str) -> None:
        """Register a process group and its mark before it is used."""
        self._groups[group] = mark
        self._tell(f"+{group} {mark}\n")

    def remove(self, group: int) -> None:
        """Forget a process group that was killed."""
        self._groups.pop(group, None)
        self._tell(f"-{group}\n")

    def close(self) -> None:
        """End the guard, which kills the groups that are left."""
        self._input.close()
        self._process.wait()

    @property
    def _input(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    def _tell(self, line: str) -> None:
        with suppress(OSError):
            self._input.write(line.encode())
            self._input.flush()
            return
        self._process.wait()
        self._process = self._start()
        with suppress(OSError):
            self._input.write("".join(f"+{group} {mark}\n" for group, mark in self._groups.items()).encode())
            self._input.flush()

    def _start(self) -> subprocess.Popen[bytes]:
        # In a session of its own, it survives a signal to the process group of the bridge.
        return subprocess.Popen(  # noqa: S603 - our own script
            [sys.executable, "-I", "-S", GUARD],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
            start_new_session=True,
        )
