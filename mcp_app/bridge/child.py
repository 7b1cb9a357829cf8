"""A process of a command: its start, its lines and its end."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from mcp_app.bridge.error_output import ErrorOutput
from mcp_app.bridge.guard import VARIABLE, kill_marked
from mcp_app.bridge.guarding import Guard
from mcp_app.upstream_commands import UpstreamCommand

MAX_LINE_BYTES: Final = 8 * 1024 * 1024
WRITE_SECONDS: Final = 30.0
# The time after the end of its input, and after TERM.
END_SECONDS: Final = 2.0
TERM_SECONDS: Final = 3.0
# Error output and messages for no caller are read at this rate at most, so that a flood costs little.
FLOOD_BYTES_PER_SECOND: Final = 1024 * 1024
_CHUNK: Final = 64 * 1024
# The bytes whose handling costs as much as a line itself.
_LINE: Final = 64
_POLL_SECONDS: Final = 0.5
_LAUNCHER: Final = str(Path(__file__).with_name("launcher.py"))

# Returns False for a message that no caller received.
OnLine = Callable[[bytes], Awaitable[bool]]
OnEnd = Callable[["Child", str], None]


class CannotStart(Exception):
    """Raised if a process cannot be started. The text is shown to callers."""


class Child:
    """A running process, which leads a session and a process group.

    ``ended_itself`` is False once the bridge stops it.
    """

    def __init__(self, process: Process, mark: str, guard: Guard, errors: ErrorOutput) -> None:
        self._process, self._mark, self._guard, self._errors = process, mark, guard, errors
        self._writing = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping: asyncio.Task[None] | None = None
        self.started_at = time.monotonic()
        self.memory_mb = self.processes = 0
        self.ended_itself = True
        self.reason = ""

    @classmethod
    async def start(cls, command: UpstreamCommand, guard: Guard, errors: ErrorOutput) -> Child:
        """Start a process of a command. Raise CannotStart."""
        mark = secrets.token_hex(16)
        environment = {**command.environment(), VARIABLE: mark}
        limits = (str(os.getpid()), str(command.memory_mb), str(command.open_files))
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", _LAUNCHER, *limits, *command.command),
                stdin=PIPE, stdout=PIPE, stderr=PIPE, limit=MAX_LINE_BYTES,
                cwd=command.cwd or "/", env=environment, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            name = error.filename if isinstance(error.filename, str) else command.command[0]
            raise CannotStart(f"{name}: {error.strerror}") from None
        guard.add(process.pid, mark)
        return cls(process, mark, guard, errors)

    def watch(self, on_line: OnLine, on_end: OnEnd) -> None:
        """Read the output in tasks. ``on_end`` is called with the reason once the process has ended."""
        loop = asyncio.get_running_loop()
        reading = loop.create_task(self._read(on_line))
        self._tasks = [reading, loop.create_task(self._read_errors())]
        self._tasks.append(loop.create_task(self._wait(reading, on_end)))

    @property
    def pid(self) -> int:
        """The id of the process, and of its group and session."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """True while the process runs and is not being stopped."""
        return self._process.returncode is None and self._stopping is None

    async def write(self, message: bytes) -> None:
        """Write a line. A process that does not read its input is killed."""
        stdin = self._process.stdin
        assert stdin is not None
        # Line feeds in a message are spaces between tokens.
        line = message.replace(b"\n", b" ").replace(b"\r", b" ") + b"\n"
        try:
            async with asyncio.timeout(WRITE_SECONDS), self._writing:
                stdin.write(line)
                await stdin.drain()
        except TimeoutError:
            self.kill("It does not read its input.")
        except (OSError, RuntimeError):
            pass  # It has ended, which its output shows as well.

    def kill(self, reason: str) -> None:
        """Kill the process and its children at once."""
        self.reason = self.reason or reason
        self._signal(signal.SIGKILL)

    def stop(self, reason: str) -> asyncio.Task[None]:
        """End the input, and kill the process if it does not end. Return the task that waits."""
        if self._stopping is None:
            self.reason = self.reason or reason
            self.ended_itself = False
            self._stopping = asyncio.get_running_loop().create_task(self._stop())
        return self._stopping

    async def _stop(self) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        with suppress(OSError, RuntimeError):
            stdin.close()
        ended = self._tasks[-1]
        for number, seconds in ((signal.SIGTERM, END_SECONDS), (signal.SIGKILL, TERM_SECONDS)):
            done, _ = await asyncio.wait([ended], timeout=seconds)
            if done:
                return
            self._signal(number)
        await asyncio.wait([ended])

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    async def _wait(self, reading: asyncio.Task[None], on_end: OnEnd) -> None:
        status = await self._status()
        # Its children end with it. One of them may still have its output open.
        self._signal(signal.SIGKILL)
        # So do those that left its group.
        await asyncio.to_thread(kill_marked, self._mark)
        self._guard.remove(self.pid)
        await asyncio.wait([reading], timeout=1.0)
        for task in self._tasks[:2]:
            task.cancel()
        # Unread output keeps its pipes open, and ``Process`` cannot close them.
        self._process._transport.close()  # type: ignore[attr-defined]
        on_end(self, self.reason or _ending(status))

    async def _status(self) -> int:
        """Return the exit status. From Python 3.13 on, ``wait`` may also wait for the end of the output."""
        waiting = asyncio.get_running_loop().create_task(self._process.wait())
        while (status := self._process.returncode) is None:
            await asyncio.wait([waiting], timeout=_POLL_SECONDS)
        waiting.cancel()
        return status

    async def _read(self, on_line: OnLine) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        slowly = _Slowly()
        while True:
            try:
                line = await stdout.readuntil(b"\n")
            except asyncio.IncompleteReadError as rest:
                if rest.partial.strip():
                    await on_line(rest.partial)
                return
            except asyncio.LimitOverrunError:
                self.kill(f"It sent a line of more than {MAX_LINE_BYTES // 1024 // 1024} MiB.")
                return
            line = line.strip()
            if not line or not await on_line(line):
                await slowly.read(len(line) + _LINE)

    async def _read_errors(self) -> None:
        stderr = self._process.stderr
        assert stderr is not None
        rest, slowly = b"", _Slowly()
        while chunk := await stderr.read(_CHUNK):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self._errors.add(self.pid, line)
            if len(rest) > _CHUNK:
                self._errors.add(self.pid, rest)
                rest = b""
            await slowly.read(len(chunk) + _LINE * len(lines))
        self._errors.add(self.pid, rest)


class _Slowly:
    """The pace of a reader, which sleeps after each 64 KiB."""

    def __init__(self) -> None:
        self._bytes = 0

    async def read(self, number: int) -> None:
        """Count bytes that were read, and sleep if they are many."""
        self._bytes += number
        if self._bytes > _CHUNK:
            await asyncio.sleep(self._bytes / FLOOD_BYTES_PER_SECOND)
            self._bytes = 0


def _ending(status: int) -> str:
    if status >= 0:
        return f"It ended with status {status}."
    with suppress(ValueError):
        return f"It was ended by {signal.Signals(-status).name}."
    return f"It was ended by signal {-status}."
