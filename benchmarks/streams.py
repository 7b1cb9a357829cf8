"""Many idle streams on one process: what each costs in memory, how fast a change reaches all."""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks import scenarios
from benchmarks.load import Reply, WrongAnswer, content_length
from benchmarks.processes import ROOT

OPENING_AT_ONCE = 32
TOLD_SECONDS = 20.0
CHANGES = 5
PREFIX = "io.modelcontextprotocol/"
LISTEN_HEADERS = {
    **scenarios.ACCEPT,
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": "subscriptions/listen",
}
LISTEN = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "subscriptions/listen",
    "params": {
        "notifications": {"toolsListChanged": True},
        "_meta": {PREFIX + "protocolVersion": "2026-07-28", PREFIX + "clientCapabilities": {}},
    },
}


class Stream(asyncio.Protocol):
    """One client: initialize, initialized, GET on one connection; then it only listens."""

    def __init__(self, port: int, opened: asyncio.Future[None], told: Callable[[], None]) -> None:
        self.port = port
        self.opened = opened
        self.told = told
        self.step = 0
        self.buffer = b""
        self.transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self.send(scenarios.request(self.port, "POST", scenarios.ACCEPT, scenarios.INITIALIZE))

    def send(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)

    def data_received(self, data: bytes) -> None:
        if self.step == 2 and self.opened.done():
            if b"list_changed" in data:
                self.told()
            return
        self.buffer += data
        try:
            self._handshake()
        except (WrongAnswer, ValueError) as error:
            if not self.opened.done():
                self.opened.set_exception(error)

    def _handshake(self) -> None:
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        status = int(self.buffer[9:12])
        if self.step == 2:
            if status != 200 or b"text/event-stream" not in self.buffer[:end]:
                raise WrongAnswer(f"GET: {self.buffer[:400]!r}")
            self.buffer = b""
            self.opened.set_result(None)
            return
        total = end + 4 + content_length(self.buffer, end)
        if len(self.buffer) < total:
            return
        reply = Reply(status, self.buffer[:end], self.buffer[end + 4 : total])
        self.buffer = self.buffer[total:]
        self._answered(reply)

    def _answered(self, reply: Reply) -> None:
        self.step += 1
        if self.step == 1:
            self.headers = scenarios.session_headers(reply)
            self.send(scenarios.request(self.port, "POST", self.headers, scenarios.INITIALIZED))
        else:
            accept = {**self.headers, "Accept": "text/event-stream"}
            self.send(scenarios.request(self.port, "GET", accept))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.opened.done():
            self.opened.set_exception(exc or WrongAnswer("the connection was closed while opening a stream"))


class Listener(Stream):
    """One client of 2026-07-28: it only listens."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self.step = 2
        self.send(scenarios.request(self.port, "POST", LISTEN_HEADERS, LISTEN))


@dataclass(frozen=True, slots=True)
class Idle:
    """What so many open streams cost: bytes each, and for each change the ms until half and all were told."""

    streams: int
    bytes_each: float
    changes: tuple[tuple[float, float], ...]


class Changer:
    """Another process of the installation that edits the catalogue on demand, as an administrator would."""

    def __init__(self, environment: dict[str, str], root: Path = ROOT) -> None:
        self.child = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.change"],
            cwd=root,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._expect("ready")

    def _expect(self, word: str) -> float:
        assert self.child.stdout is not None
        line = self.child.stdout.readline().split()
        if not line or line[0] != word:
            raise WrongAnswer(f"the changing process said {line!r}")
        return float(line[1])

    def change(self) -> float:
        """Edit one tool and commit; the moment before, in seconds of the monotonic clock all share."""
        assert self.child.stdin is not None
        self.child.stdin.write("\n")
        self.child.stdin.flush()
        return self._expect("changed")

    def stop(self) -> None:
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        self.child.stdin.close()
        self.child.wait(20)
        self.child.stdout.close()


def allow_open_files(count: int) -> int:
    """Raise the limit of open files as far as allowed; how many streams then fit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + 200
    if soft < wanted:
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return min(count, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 200)


async def measure(
    port: int,
    rss: Callable[[], int],
    count: int,
    changer: Changer | None,
    kind: type[Stream] = Stream,
) -> Idle:
    """Open ``count`` streams, compare memory, then let ``changer`` change the catalogue a few times."""
    times: list[float] = []
    loop = asyncio.get_running_loop()
    # The first sessions and streams pay for imports and pools that every server has once.
    warm = await _open(port, 50, lambda: None, kind)
    before = rss()
    opened = await _open(port, count, lambda: times.append(time.monotonic()), kind)
    await asyncio.sleep(1.0)
    bytes_each = (rss() - before) / count
    changes = []
    for _ in range(CHANGES if changer is not None else 0):
        assert changer is not None
        times.clear()
        began = await loop.run_in_executor(None, changer.change)
        deadline = time.monotonic() + TOLD_SECONDS
        while len(times) < count and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        if len(times) != count:
            raise WrongAnswer(
                f"{len(times)} of {count} streams were told of a change within {TOLD_SECONDS} s"
            )
        told = sorted(times)
        changes.append(((told[count // 2] - began) * 1000, (told[-1] - began) * 1000))
    for stream in warm + opened:
        if stream.transport is not None:
            stream.transport.close()
    return Idle(count, bytes_each, tuple(changes))


async def _open(port: int, count: int, told: Callable[[], None], kind: type[Stream]) -> list[Stream]:
    loop = asyncio.get_running_loop()
    limit = asyncio.Semaphore(OPENING_AT_ONCE)

    async def one() -> Stream:
        async with limit:
            stream = kind(port, loop.create_future(), told)
            await loop.create_connection(lambda: stream, "127.0.0.1", port)
            async with asyncio.timeout(30):
                await stream.opened
            return stream

    return list(await asyncio.gather(*(one() for _ in range(count))))
