"""Standard input and output, reserved for the protocol. Reads and prints of other code are redirected.

Input and output each have a thread, because pipes, files and terminals have to be waited for in different
ways. The threads are daemons, because a client that does not read must not keep the process from exiting.
"""

from __future__ import annotations

import asyncio
import os
import queue
import sys
import threading
from collections.abc import AsyncIterator

CHUNK = 65_536
# The maximum number of chunks that are read before they are processed.
AHEAD = 16


class Pipes:
    """The process's standard input and output, which other code can no longer use.

    An instance belongs to one event loop.
    """

    def __init__(self) -> None:
        self._input, self._output = os.dup(0), os.dup(1)
        # STDIO-01: print() in other code must not write between messages, so it writes to standard error.
        os.dup2(2, 1)
        sys.stdout = sys.stderr
        with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - a device, and only its number is wanted
            os.dup2(nothing.fileno(), 0)
        self._loop = asyncio.get_running_loop()
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()
        self._ahead = threading.Semaphore(AHEAD)
        self._writes: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]]] = queue.SimpleQueue()
        for target in (self._read, self._write_all):
            threading.Thread(target=target, name=f"stdio{target.__name__}", daemon=True).start()

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the client's data until its end of file."""
        while chunk := await self._chunks.get():
            yield chunk
            self._ahead.release()

    async def write(self, data: bytes) -> None:
        """Write all of ``data``. Raise OSError if the client has disconnected."""
        done = self._loop.create_future()
        self._writes.put((data, done))
        await done

    def end(self) -> None:
        """End ``chunks`` as at the client's end of file."""
        self._chunks.put_nowait(b"")

    def _read(self) -> None:
        while True:
            self._ahead.acquire()
            try:
                chunk = os.read(self._input, CHUNK)
            except OSError:
                chunk = b""
            try:
                self._loop.call_soon_threadsafe(self._chunks.put_nowait, chunk)
            except RuntimeError:
                return  # The loop is closed.
            if not chunk:
                return

    def _write_all(self) -> None:
        while True:
            data, done = self._writes.get()
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(self._output, view) :]
            except OSError as error:
                self._notify(done, error)
            else:
                self._notify(done, None)

    def _notify(self, done: asyncio.Future[None], error: OSError | None) -> None:
        try:
            self._loop.call_soon_threadsafe(_settle, done, error)
        except RuntimeError:
            return  # The loop is closed, so no code waits for the result.


def _settle(done: asyncio.Future[None], error: OSError | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
