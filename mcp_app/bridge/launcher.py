"""A launcher that limits a process before it becomes the command. It uses the standard library only."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from contextlib import suppress

PR_SET_PDEATHSIG = 1
PR_SET_NO_NEW_PRIVS = 38
# The limit of processes applies to all processes of the user, so this many more may be started. The bridge
# counts the processes of each session exactly.
MORE_PROCESSES = 512
NOT_STARTED = 127


def limit(memory_mb: int, open_files: int) -> None:
    """Limit memory, open files and processes. Without a limit that the system refuses, go on."""
    numbers = {
        # Node reserves much more address space than it uses, so the address space is not limited.
        resource.RLIMIT_DATA: memory_mb * 1024 * 1024,
        resource.RLIMIT_NOFILE: open_files,
        resource.RLIMIT_CORE: 0,
    }
    if sys.platform == "linux":
        numbers[resource.RLIMIT_NPROC] = threads_of_user() + MORE_PROCESSES
    for kind, wanted in numbers.items():
        _, hard = resource.getrlimit(kind)
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(kind, (most, most))


def threads_of_user() -> int:
    """Return the number of threads of this user."""
    user, number = os.getuid(), 0
    with os.scandir("/proc") as found:
        for entry in found:
            with suppress(OSError):
                if entry.name.isdigit() and entry.stat().st_uid == user:
                    number += len(os.listdir(f"{entry.path}/task"))  # noqa: PTH208 - pathlib loads slowly
    return number


def restrict() -> None:
    """End with the bridge, and gain no privileges by a program with a set-user-id bit (Linux)."""
    if sys.platform == "linux":
        control = ctypes.CDLL(None, use_errno=True).prctl
        control(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        control(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def main(parent: int, memory_mb: int, open_files: int, command: list[str]) -> None:
    """Replace this process with the command."""
    restrict()
    # If the bridge ended before prctl was called, no signal is sent.
    if os.getppid() != parent:
        sys.exit(NOT_STARTED)
    limit(memory_mb, open_files)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)  # noqa: S606 - replacing this process without a shell is its purpose
    except OSError as error:
        sys.stderr.write(f"{command[0]} cannot be started: {error.strerror}\n")
        sys.stderr.flush()
        os._exit(NOT_STARTED)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
