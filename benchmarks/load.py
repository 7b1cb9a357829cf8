"""The load generator: keep-alive connections on raw asyncio protocols, with every response checked."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Protocol

WARM_UP_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class Reply:
    """The parts of one HTTP response that the generator reads."""

    status: int
    head: bytes
    body: bytes


class WrongAnswer(Exception):
    """A response differs from the scenario's expectation; the measurement is void."""


# Yields the bytes of a request and receives its Reply; yields None to count one completed operation.
Script = Generator[bytes | None, Reply, None]


class _Writer(Protocol):
    def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...


class Connection(asyncio.Protocol):
    """One keep-alive connection that always has exactly one request in flight, taken from its script."""

    transport: _Writer

    def __init__(self, script: Script) -> None:
        self.script = script
        self.buffer = b""
        self.done = 0
        self.error: Exception | None = None
        self.closing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        first = next(self.script)
        assert first is not None
        self.transport.write(first)

    def data_received(self, data: bytes) -> None:
        self.buffer = self.buffer + data if self.buffer else data
        try:
            reply = whole_reply(self.buffer)
            if reply is not None:
                self.buffer = b""
                self._next(reply)
        except (WrongAnswer, ValueError) as error:
            self.error = error

    def _next(self, reply: Reply) -> None:
        request = self.script.send(reply)
        if request is None:
            self.done += 1
            request = next(self.script)
        if request is not None and not self.closing:
            self.transport.write(request)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closing and self.error is None:
            self.error = exc or WrongAnswer("the server closed a keep-alive connection")

    def close(self) -> None:
        self.closing = True
        self.transport.close()


def whole_reply(buffer: bytes) -> Reply | None:
    """Return the response in ``buffer``, or None until it is complete."""
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        return None
    status, head = int(buffer[9:12]), buffer[:end]
    if b"\r\ntransfer-encoding: chunked" in head.lower():
        # There is no pipelining, so the last chunk is the end of the received bytes.
        if not buffer.endswith(b"0\r\n\r\n"):
            return None
        return Reply(status, head, unchunked(buffer, end + 4))
    total = end + 4 + content_length(buffer, end)
    return None if len(buffer) < total else Reply(status, head, buffer[end + 4 : total])


def unchunked(buffer: bytes, at: int) -> bytes:
    """Return the body whose chunks start at ``at``, up to its last chunk."""
    pieces = []
    while True:
        line = buffer.index(b"\r\n", at)
        size = int(buffer[at:line], 16)
        if not size:
            return b"".join(pieces)
        pieces.append(buffer[line + 2 : line + 2 + size])
        at = line + size + 4


def content_length(buffer: bytes, end: int) -> int:
    """Return the body size from the head. Only the empty responses (202, 204) may omit it."""
    head = buffer[:end].lower()
    at = head.find(b"\r\ncontent-length:")
    if at < 0:
        if buffer[9:12] in (b"202", b"204"):
            return 0
        raise WrongAnswer(f"no Content-Length: {buffer[:300]!r}")
    return int(head[at + 17 :].split(b"\r", 1)[0])


@dataclass(frozen=True, slots=True)
class Rate:
    """The result of one round: operations per second, and the server's processor time for each."""

    per_second: float
    cpu_microseconds: float


async def drive(port: int, scripts: list[Script], seconds: float, cpu: Callable[[], float]) -> Rate:
    """Run each script on its own connection for ``seconds`` and return the rate.

    ``cpu`` returns the server's processor seconds. Raises WrongAnswer if any response was wrong or any
    connection was lost.
    """
    loop = asyncio.get_running_loop()
    connections = [Connection(script) for script in scripts]
    for connection in connections:
        await loop.create_connection(lambda made=connection: made, "127.0.0.1", port)  # type: ignore[misc]
    gc.collect()
    gc.disable()
    try:
        await asyncio.sleep(WARM_UP_SECONDS)
        before, used, started = _total(connections), cpu(), time.perf_counter()
        await asyncio.sleep(seconds)
        done, used, elapsed = _total(connections) - before, cpu() - used, time.perf_counter() - started
    finally:
        gc.enable()
        for connection in connections:
            connection.close()
    for connection in connections:
        if connection.error is not None:
            raise WrongAnswer(str(connection.error))
    return Rate(done / elapsed, used * 1e6 / max(done, 1))


def _total(connections: list[Connection]) -> int:
    return sum(connection.done for connection in connections)
