"""Measure the live console: ``python -m benchmarks.console.run``.

20 pages at two web processes watch while one of the two answers 200 calls per second; a worker writes
the log. A message counts as seen when its line reaches the page's connection, measured from the sending
of its request. Then calls with the message log are compared with calls without it, in turns on one
process each. The figure compared is the number of calls per second of the server's processor time: its
rate on a dedicated core, independent of other load on this machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import uvloop

from benchmarks import load, scenarios
from benchmarks.console.viewer import Viewer, sign_in
from benchmarks.processes import cores
from benchmarks.servers import empty_log_queue, pin
from tests.servers.live import LiveServer, cpu_seconds

VIEWERS = 20
MESSAGES_PER_SECOND = 200
SENDERS = 4
SOON = 0.3
LATEST = 3.0
CONNECTIONS = 32
AT_LEAST_SEEN = 0.95
AT_LEAST_RATE = 0.85


def emit(**facts: object) -> None:
    """Print one JSON object on its own line."""
    print(json.dumps(facts), flush=True)


# How fast users see messages.


@dataclass
class Seen:
    """The results of all rounds: the seconds from sending to arrival of each message at each page."""

    seconds: list[float] = field(default_factory=list)
    expected: int = 0
    skipped: int = 0

    @property
    def share(self) -> float:
        """The share of all messages at all pages that arrived within ``SOON``.

        A missing message counts as late.
        """
        return sum(each <= SOON for each in self.seconds) / self.expected


async def _send(port: int, number: int, seconds: float, sent: dict[str, float]) -> None:
    """Call echo at an even rate, each call with a unique id."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def ask(message: dict[str, object], headers: dict[str, str]) -> load.Reply:
        writer.write(scenarios.request(port, "POST", headers, message))
        head = await reader.readuntil(b"\r\n\r\n")
        body = await reader.readexactly(load.content_length(head, len(head) - 4))
        return load.Reply(int(head[9:12]), head[:-4], body)

    headers = scenarios.session_headers(await ask(scenarios.INITIALIZE, scenarios.ACCEPT))
    await ask(scenarios.INITIALIZED, headers)
    loop = asyncio.get_running_loop()
    began, count = loop.time() + number / MESSAGES_PER_SECOND, 0
    while (due := began + count * SENDERS / MESSAGES_PER_SECOND) < began + seconds:
        await asyncio.sleep(due - loop.time())
        name = f"{number}-{count}-{os.urandom(3).hex()}"
        sent[name] = time.monotonic()
        scenarios.check_echo(await ask({**scenarios.ECHO, "id": name}, headers))
        count += 1
    writer.close()
    await writer.wait_closed()


async def watch(server: LiveServer, key: str, seconds: float, found: Seen) -> None:
    """Send for ``seconds`` while all pages watch, and record in ``found`` when each message arrived."""
    loop = asyncio.get_running_loop()
    viewers = []
    for number in range(VIEWERS):
        port = server.ports[number % 2]
        _, viewer = await loop.create_connection(lambda port=port: Viewer(port, key), "127.0.0.1", port)  # type: ignore[misc]
        viewers.append(viewer)
    await asyncio.wait_for(asyncio.gather(*(viewer.watching for viewer in viewers)), 20)
    await asyncio.sleep(0.5)  # Until every process knows of the viewers.
    sent: dict[str, float] = {}
    await asyncio.gather(*(_send(server.ports[0], number, seconds, sent) for number in range(SENDERS)))
    deadline = time.monotonic() + LATEST
    while time.monotonic() < deadline and any(len(viewer.seen) < len(sent) for viewer in viewers):
        await asyncio.sleep(0.05)
    times = []
    for viewer in viewers:
        times += [viewer.seen[name] - at for name, at in sent.items() if name in viewer.seen]
        found.skipped += viewer.skipped
        viewer.close()
    found.seconds += times
    found.expected += len(sent) * VIEWERS
    late = sorted(times)[int(len(times) * 0.95)] if times else float("inf")
    emit(work="live tail", viewers=VIEWERS, sent=len(sent), seen=len(times), skipped=found.skipped,
         p50_ms=round(statistics.median(times) * 1e3), p95_ms=round(late * 1e3),
         per_second=round(len(sent) / seconds))  # fmt: skip


def measure_tail(rounds: int, seconds: float) -> bool:
    """Run all rounds of watching and return True if enough messages arrive in time."""
    found = Seen()
    with LiveServer(
        2, settings="benchmarks.settings", worker=True, concurrency=1, env={"DEMO": "off"}
    ) as server:
        key = sign_in(server)
        for _ in range(rounds):
            uvloop.run(watch(server, key, seconds, found))
    met = found.share >= AT_LEAST_SEEN
    what = f"share of messages seen within {SOON * 1e3:.0f} ms by {VIEWERS} pages"
    emit(target=f"{what} at {MESSAGES_PER_SECOND} a second", value=round(found.share, 3),
         at_least=AT_LEAST_SEEN, met=met)  # fmt: skip
    return met


# The cost of logging messages.


@contextmanager
def _one(settings: str) -> Iterator[LiveServer]:
    pins = cores()
    with LiveServer(1, settings=settings, env={"DEMO": "off", "BENCH_TOOLS": "10"}) as server:
        if pins and server.redis.process is not None:
            pin(server.processes[0].pid, pins[0])
            pin(server.redis.process.pid, pins[1])
        yield server


def _rate(server: LiveServer, seconds: float) -> load.Rate:
    port = server.ports[0]
    scripts = [scenarios.repeated(port, scenarios.ECHO, scenarios.check_echo) for _ in range(CONNECTIONS)]
    pid = server.processes[0].pid
    measured = uvloop.run(load.drive(port, scripts, seconds, lambda: cpu_seconds(pid)))
    empty_log_queue(server)
    return measured


def measure_log(rounds: int, seconds: float) -> bool:
    """Compare the rates with and without the log, in turns.

    Return True if the log's cost is within the bound.
    """
    pins = cores()
    before = os.sched_getaffinity(0) if pins else None
    ratios = []
    with _one("benchmarks.settings") as logged, _one("benchmarks.console.unlogged") as unlogged:
        try:
            if pins:
                os.sched_setaffinity(0, {pins[1]})
            for number in range(rounds):
                turns = (logged, unlogged) if number % 2 == 0 else (unlogged, logged)
                rates = {id(server): _rate(server, seconds) for server in turns}
                with_log, without = rates[id(logged)], rates[id(unlogged)]
                ratios.append(without.cpu_microseconds / with_log.cpu_microseconds)
                emit(work="tools/call echo", round=number + 1, logged_per_second=round(with_log.per_second),
                     unlogged_per_second=round(without.per_second),
                     logged_cpu_us=round(with_log.cpu_microseconds, 1),
                     unlogged_cpu_us=round(without.cpu_microseconds, 1),
                     ratio=round(ratios[-1], 2))  # fmt: skip
        finally:
            if before is not None:
                os.sched_setaffinity(0, before)
    ratio = statistics.median(ratios)
    met = ratio >= AT_LEAST_RATE
    emit(target="tools/call with the message log as a share of that without", value=round(ratio, 2),
         at_least=AT_LEAST_RATE, met=met)  # fmt: skip
    return met


def measure(rounds: int, seconds: float) -> bool:
    """Run both measurements and return True if every target is met."""
    seen = measure_tail(rounds, seconds)
    return measure_log(4 * rounds + 1, 0.8) and seen


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0)
    wanted = parser.parse_args(arguments)
    with suppress(KeyboardInterrupt):
        return 0 if measure(wanted.rounds, wanted.seconds) else 1
    return 130


if __name__ == "__main__":
    sys.exit(main())
