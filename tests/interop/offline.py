"""A machine without internet, and programs in a pseudo terminal (Linux, as root)."""

from __future__ import annotations

import ctypes
import fcntl
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

CLONE_NEWNET = 0x40000000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1
_ESCAPES = re.compile(r"\x1b(\[[0-9;?<>=]*[A-Za-z]|\][^\x07\x1b]*(\x07|\x1b\\)|[@-Z\\-_=>78]|\([A-Z0-9])")


class CannotUnshare(Exception):
    """This process may not create a network namespace."""


@contextmanager
def without_internet() -> Iterator[None]:
    """Give this thread, and its child processes, a network with loopback only."""
    libc = ctypes.CDLL(None, use_errno=True)
    with Path("/proc/thread-self/ns/net").open("rb") as before:
        if libc.unshare(CLONE_NEWNET):
            raise CannotUnshare(os.strerror(ctypes.get_errno()))
        try:
            _bring_up_loopback()
            yield
        finally:
            libc.setns(before.fileno(), CLONE_NEWNET)


def _bring_up_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        name = struct.pack("16sh", b"lo", 0)
        flags = struct.unpack("16sh", fcntl.ioctl(any_socket, SIOCGIFFLAGS, name))[1]
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh", b"lo", flags | IFF_UP))


class Terminal:
    """A program in a pseudo terminal: its output and input."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        self._ours, theirs = pty.openpty()
        # Wide, so that no address is broken into lines.
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 60, 900, 0, 0))
        self.program = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=dict(environment),
            cwd=folder,
            start_new_session=True,
        )
        os.close(theirs)
        self._raw = b""

    @property
    def shown(self) -> str:
        """The output so far, without colours and cursor movements."""
        return _ESCAPES.sub("", self._raw.decode(errors="replace"))

    def wait_for(self, pattern: str, seconds: float) -> re.Match[str]:
        """Return the first match in the output; raise AssertionError without one in time."""
        found = self.shows(pattern, seconds)
        assert found, f"{pattern!r} did not come:\n{self.shown[-4000:]}"
        return found

    def shows(self, pattern: str, seconds: float) -> re.Match[str] | None:
        """Return the first match in the output, or None without one in time."""
        deadline = time.monotonic() + seconds
        while (found := re.search(pattern, self.shown)) is None:
            if not self._more(deadline):
                return None
        return found

    def type(self, text: str) -> None:
        """Type ``text``, and then Enter as a separate key press."""
        os.write(self._ours, text.encode())
        # Some programs treat input that arrives in one piece as pasted text, including the line end.
        time.sleep(0.3)
        os.write(self._ours, b"\r")

    def end(self, seconds: float) -> int:
        """Return the exit status; raise AssertionError if the program does not end."""
        deadline = time.monotonic() + seconds
        while self._more(deadline):
            pass
        assert self.program.poll() is not None or time.monotonic() < deadline, self.shown[-4000:]
        return self.program.wait(5)

    def _more(self, deadline: float) -> bool:
        """Read available output; return False at the end or the deadline."""
        ready, _, _ = select.select([self._ours], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return False
        try:
            data = os.read(self._ours, 65_536)
        except OSError:  # Linux reports in this way that the other end is closed.
            return False
        self._raw += data
        return bool(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Its child processes are in its session and group.
        with suppress(ProcessLookupError):
            os.killpg(self.program.pid, signal.SIGKILL)
        self.program.wait()
        os.close(self._ours)
