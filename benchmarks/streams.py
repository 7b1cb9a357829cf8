"""Many idle streams on one process: the memory of each, and the delivery time of a change."""

from __future__ import annotations

import asyncio
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks import scenarios
from benchmarks.load import Reply, WrongAnswer, whole_reply
from benchmarks.processes import ROOT
from tests.servers.live import cpu_seconds, resident_bytes

OPENING_AT_ONCE = 32
TOLD_SECONDS = 20.0
CHANGES = 5
# The time after the last notification in which the server's work counts: its log, its records in Redis.
SETTLED_SECONDS = 1.0
# Long enough to include tasks that run every few seconds.
IDLE_SECONDS = 6.0
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
        if self.step < 2:
            reply = whole_reply(self.buffer)
            if reply is not None:
                self.buffer = b""
                self._answered(reply)
            return
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        if int(self.buffer[9:12]) != 200 or b"text/event-stream" not in self.buffer[:end]:
            raise WrongAnswer(f"GET: {self.buffer[:400]!r}")
        self.buffer = b""
        self.opened.set_result(None)

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
    """One client of 2026-07-28 that only listens."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self.step = 2
        self.send(scenarios.request(self.port, "POST", LISTEN_HEADERS, LISTEN))


@dataclass(frozen=True, slots=True)
class Told:
    """One change: its cost, and ms from its commit until the first, half and all clients were notified.

    ``cpu_us`` is the server's processor time per stream up to a second later. ``waited_ms`` are the
    response times of another client meanwhile.
    """

    first: float
    half: float
    last: float
    cpu_us: float
    waited_ms: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Idle:
    """The cost of open streams: bytes per stream, and the results of each change."""

    streams: int
    bytes_each: float
    changes: tuple[Told, ...]

    def median(self, figure: str) -> float:
        """Return the median of one figure over all changes."""
        return statistics.median(getattr(told, figure) for told in self.changes)

    @property
    def waited_p99(self) -> float:
        """The 99th percentile of the other client's response times in milliseconds."""
        waited = sorted(ms for told in self.changes for ms in told.waited_ms)
        return waited[int(len(waited) * 0.99)] if waited else 0.0


class Child:
    """A process that does one unit of work per input line and responds with a line."""

    def __init__(
        self, command: list[str], environment: dict[str, str] | None = None, root: Path = ROOT
    ) -> None:
        self.child = subprocess.Popen(
            [sys.executable, *command],
            cwd=root,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.answer()

    def say(self) -> None:
        """Request one unit of work."""
        assert self.child.stdin is not None
        self.child.stdin.write("\n")
        self.child.stdin.flush()

    def answer(self) -> str:
        """Return its next line."""
        assert self.child.stdout is not None
        line = self.child.stdout.readline()
        if not line:
            raise WrongAnswer(f"{self.child.args!r} ended")
        return line

    def stop(self) -> None:
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        self.child.stdin.close()
        self.child.wait(20)
        self.child.stdout.close()


class Changer(Child):
    """Another process of the installation that edits the catalogue on demand, like an administrator."""

    def __init__(self, environment: dict[str, str], root: Path = ROOT) -> None:
        # This checkout's script for every compared checkout: it implements this file's protocol.
        script = ["-P", str(ROOT / "benchmarks" / "change.py")]
        super().__init__(script, {**environment, "PYTHONPATH": str(root)}, root)

    def change(self) -> float:
        """Edit one tool and return the commit's time in seconds of the monotonic clock of all processes."""
        self.say()
        return float(self.answer().split()[1])


class Bystander(Child):
    """A client that calls a tool repeatedly and records its response times."""

    def __init__(self, port: int) -> None:
        super().__init__(["-m", "benchmarks.bystander", str(port)])

    def waited(self) -> tuple[float, ...]:
        """Stop calling and return the response times in milliseconds since the last ``say``."""
        self.say()
        return tuple(json.loads(self.answer()))


def allow_open_files(count: int) -> int:
    """Raise the limit of open files as far as allowed and return the number of streams that fit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + 200
    if soft < wanted:
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return min(count, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 200)


async def measure(
    port: int,
    pid: int,
    count: int,
    change: Callable[[], float] | None,
    kind: type[Stream] = Stream,
) -> Idle:
    """Open ``count`` streams, compare memory, then ``change`` the catalogue several times.

    ``change`` blocks and returns the time of its commit on the monotonic clock.
    """
    times: list[float] = []
    # The first sessions and streams trigger imports and pools that every server creates once.
    warm = await _open(port, 50, lambda: None, kind)
    before = resident_bytes(pid)
    opened = await _open(port, count, lambda: times.append(time.monotonic()), kind)
    await asyncio.sleep(1.0)
    bytes_each = (resident_bytes(pid) - before) / count
    changes = []
    if change is not None:
        bystander = Bystander(port)
        try:
            idle = await _processor_share(pid)
            for _ in range(CHANGES):
                told = await _changed(pid, times, count, change, bystander, idle)
                changes.append(told)
        finally:
            bystander.stop()
    for stream in warm + opened:
        if stream.transport is not None:
            stream.transport.close()
    return Idle(count, bytes_each, tuple(changes))


async def _changed(
    pid: int,
    times: list[float],
    count: int,
    change: Callable[[], float],
    bystander: Bystander,
    idle: float,
) -> Told:
    """Make one change and wait until every client is notified."""
    loop = asyncio.get_running_loop()
    times.clear()
    used, since = processor_seconds(pid), time.monotonic()
    bystander.say()
    began = await loop.run_in_executor(None, change)
    deadline = time.monotonic() + TOLD_SECONDS
    while len(times) < count and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    waited = await loop.run_in_executor(None, bystander.waited)
    if len(times) != count:
        raise WrongAnswer(f"{len(times)} of {count} streams were told of a change within {TOLD_SECONDS} s")
    await asyncio.sleep(SETTLED_SECONDS)
    cost = processor_seconds(pid) - used - idle * (time.monotonic() - since)
    first, half, last = ((at - began) * 1000 for at in (min(times), sorted(times)[count // 2], max(times)))
    return Told(first, half, last, cost / count * 1e6, waited)


async def _processor_share(pid: int) -> float:
    """Return the share of a core that the idle process uses."""
    used, since = processor_seconds(pid), time.monotonic()
    await asyncio.sleep(IDLE_SECONDS)
    return (processor_seconds(pid) - used) / (time.monotonic() - since)


def processor_seconds(pid: int) -> float:
    """Return the processor time of all threads of a process, in nanosecond resolution where available."""
    try:
        threads = Path(f"/proc/{pid}/task").iterdir()
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9
    except OSError:
        return cpu_seconds(pid)


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
