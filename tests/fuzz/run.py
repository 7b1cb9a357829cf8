"""Hostile bytes against a live server: ``python -m tests.fuzz.run --count 200000 --seed 1``."""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

import uvloop

from tests.clients.raw_http import Mcp
from tests.clients.raw_wire import NotHttp
from tests.fuzz import cases, exchange
from tests.fuzz.odd import VERSIONS
from tests.servers.live import LiveServer, WebProcess

WORKERS = 24
SESSIONS = 16
MOST_FINDINGS = 20
SAMPLES = 20
# Memory may settle for this share of the run; from then on growth is limited to this many bytes.
SETTLING = 0.4
MOST_GROWTH = 12 * 1024 * 1024


@dataclass
class Outcome:
    """Observations of the run; it passed if ``wrong`` is empty."""

    seed: int
    count: int
    answered: int = 0
    seconds: float = 0.0
    statuses: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)

    @property
    def growth(self) -> int:
        """Return bytes gained after settling, between the means of the remaining halves."""
        settled = self.memory[int(len(self.memory) * SETTLING) :]
        half = len(settled) // 2
        if half == 0:
            return 0
        return int(sum(settled[half:]) / len(settled[half:]) - sum(settled[:half]) / half)

    def add(self, number: int, case: cases.Case, what: str, got: object = "") -> None:
        if len(self.wrong) < MOST_FINDINGS:
            shown = case.data if len(case.data) < 1500 else case.data[:1500] + b"..."
            self.wrong.append(f"case {number} ({case.kind}): {what}\n  sent {shown!r}\n  got {got!r}")

    def report(self) -> str:
        """Return one JSON object with everything but the findings."""
        return json.dumps(
            {
                "seed": self.seed,
                "cases": self.count,
                "answered": self.answered,
                "per_second": round(self.count / max(self.seconds, 0.001)),
                "statuses": {str(key): value for key, value in sorted(self.statuses.items())},
                "memory_mib": [round(value / 2**20, 1) for value in self.memory],
                "growth_mib": round(self.growth / 2**20, 2),
                "wrong": len(self.wrong),
            }
        )


class Sessions:
    """Live sessions for the cases; sessions created by cases are ended, so that their number stays small."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.ids: list[str] = []

    def open(self) -> None:
        client = Mcp.at(self.port)
        while len(self.ids) < SESSIONS:
            client.initialize(random.Random(len(self.ids)).choice(VERSIONS))
            assert client.session is not None
            self.ids.append(client.session)
        client.close()

    async def end(self, line: exchange.Line, host: str, session: str) -> None:
        head = f"DELETE /mcp HTTP/1.1\r\nHost: {host}\r\nMcp-Session-Id: {session}\r\n\r\n"
        await line.exchange(cases.Case("end of a session", "DELETE", head.encode()))


async def attack(server: LiveServer, outcome: Outcome, numbers: range) -> None:
    """Send the cases of ``numbers`` over several connections, sampling memory meanwhile."""
    sessions = Sessions(server.port)
    await asyncio.to_thread(sessions.open)
    queue = iter(numbers)
    every = max(1, len(numbers) // SAMPLES)
    started = time.monotonic()

    async def worker() -> None:
        line = exchange.Line("127.0.0.1", server.port)
        for number in queue:
            if number % every == 0:
                outcome.memory.append(sum(process.rss for process in server.processes))
            if len(outcome.wrong) >= MOST_FINDINGS or not all(process.alive for process in server.processes):
                break
            await one(line, sessions, outcome, number)
        await line.close()

    await asyncio.gather(*(worker() for _ in range(WORKERS)))
    outcome.seconds = time.monotonic() - started


async def one(line: exchange.Line, sessions: Sessions, outcome: Outcome, number: int) -> None:
    """Send one case and judge its answer."""
    host = f"127.0.0.1:{sessions.port}"
    case = cases.case(outcome.seed, number, host, sessions.ids[number % SESSIONS])
    outcome.count += 1
    try:
        reply = await line.exchange(case)
    except TimeoutError:
        outcome.add(number, case, "no answer in time")
        return
    except exchange.ConnectionGone:
        outcome.add(number, case, "closed without an answer")
        return
    except (NotHttp, ValueError, asyncio.LimitOverrunError, asyncio.IncompleteReadError) as error:
        await line.close()
        outcome.add(number, case, f"not HTTP: {error}")
        return
    if reply is None:
        return
    outcome.answered += 1
    outcome.statuses[reply.status] += 1
    what = exchange.problem(case, reply)
    if what is not None:
        outcome.add(number, case, what, (reply.status, reply.headers, reply.body[:600]))
    made = reply.headers.get("mcp-session-id")
    if made and made not in sessions.ids:
        await sessions.end(line, host, made)


def check_afterwards(server: LiveServer, outcome: Outcome, before: list[int]) -> None:
    """Check that the same processes live and answer, logged no fault, and hold no more memory."""
    end = cases.Case("afterwards", "POST", b"")
    if [process.pid for process in server.processes if process.alive] != before:
        outcome.add(-1, end, "a web process died", server.logs()[-3000:])
        return
    for process in server.processes:
        _check_answers(process, outcome, end)
    for line in server.trouble():
        outcome.add(-1, end, "a fault in the log", line)
    if server.trouble():
        outcome.wrong.append(server.logs()[-6000:])
    if outcome.growth > MOST_GROWTH:
        outcome.add(
            -1, end, f"memory grew by {outcome.growth / 2**20:.1f} MiB after settling", outcome.memory
        )


def _check_answers(process: WebProcess, outcome: Outcome, end: cases.Case) -> None:
    client = Mcp.at(process.port)
    client.initialize()
    answer = client.tool("test_simple_text")
    if "simple text" not in json.dumps(answer):
        outcome.add(-1, end, "a right call is no longer answered rightly", answer)
    client.delete()
    client.close()


def fuzz(count: int, seed: int, processes: int = 1, first: int = 0) -> Outcome:
    """Run ``count`` cases of a seed against a server started for the run."""
    outcome = Outcome(seed, 0)
    with LiveServer(processes, settings="tests.fuzz.settings", env={"DEMO": "off"}) as server:
        before = [process.pid for process in server.processes]
        uvloop.run(attack(server, outcome, range(first, first + count)))
        check_afterwards(server, outcome, before)
    return outcome


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case, to repeat one")
    parser.add_argument("--processes", type=int, default=1)
    wanted = parser.parse_args(arguments)
    outcome = fuzz(wanted.count, wanted.seed, wanted.processes, wanted.first)
    for finding in outcome.wrong:
        print(finding)
    print(outcome.report())
    return 1 if outcome.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
