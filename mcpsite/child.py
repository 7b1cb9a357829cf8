"""A launcher for a program that must not outlive its parent. It uses the standard library only."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Make Linux send TERM to this process when the thread that started it ends. Do nothing elsewhere."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def main(parent: int, command: list[str]) -> None:
    """Replace this process with ``command``, unless ``parent`` is dead."""
    die_with_parent()
    # If the parent died before prctl was called, no signal is sent.
    if os.getppid() != parent:
        sys.exit(0)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.execvp(command[0], command)  # noqa: S606 - replacing this process without a shell is its purpose


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
