"""Random requests to a live authorization server: ``python -m tests.fuzz.oauth.run --count 100000 --seed 1``.

No request causes a fault, obtains a code or token, or leads a redirect to an address that was not
registered, and in long runs memory stays flat. Long runs can be cut: ``--first 20000 --count 20000`` is
the second fifth.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import Counter

import uvloop

from tests.clients.raw_wire import NotHttp
from tests.fuzz.cases import Case
from tests.fuzz.exchange import ConnectionGone, Line
from tests.fuzz.oauth.answers import problem
from tests.fuzz.oauth.cases import Attacker
from tests.fuzz.oauth.installation import Installation
from tests.fuzz.run import MOST_FINDINGS, MOST_GROWTH, SAMPLES, WORKERS, Outcome
from tests.servers.live import LiveServer

# Until about the 4,000th case, two processes still import code and fill caches.
LEAST_FOR_GROWTH = 10_000


async def attack(installation: Installation, outcome: Outcome, numbers: range) -> Counter[str]:
    """Send the cases of ``numbers`` over several connections; return the number of each kind."""
    server = installation.server
    queue, every, kinds = iter(numbers), max(1, len(numbers) // SAMPLES), Counter[str]()
    started = time.monotonic()

    async def worker(place: int) -> None:
        # Each from its own address: registrations are counted per address.
        line = Line("127.0.0.1", server.port, f"127.0.1.{place + 1}")
        for number in queue:
            if number % every == 0:
                outcome.memory.append(sum(process.rss for process in server.processes))
            if len(outcome.wrong) >= MOST_FINDINGS or not all(process.alive for process in server.processes):
                break
            case = Attacker(installation.known, outcome.seed, number).case()
            kinds[case.kind] += 1
            await one(line, installation, outcome, number, case)
        await line.close()

    await asyncio.gather(*map(worker, range(WORKERS)))
    outcome.seconds = time.monotonic() - started
    return kinds


async def one(line: Line, installation: Installation, outcome: Outcome, number: int, case: Case) -> None:
    """Send one case and judge its answer."""
    outcome.count += 1
    try:
        reply = await line.exchange(case)
    except (TimeoutError, ConnectionGone) as error:
        outcome.add(number, case, f"no answer: {error!r}")
        return
    except (NotHttp, ValueError, asyncio.LimitOverrunError, asyncio.IncompleteReadError) as error:
        await line.close()
        outcome.add(number, case, f"not HTTP: {error}")
        return
    assert reply is not None
    outcome.answered += 1
    outcome.statuses[reply.status] += 1
    what = problem(installation.known, case, reply)
    if what is not None:
        outcome.add(number, case, what, (reply.status, reply.headers, reply.body[:600]))


def run(count: int, seed: int, processes: int = 2, first: int = 0) -> tuple[Outcome, Counter[str]]:
    """Send ``count`` cases of a seed to a server started for the run."""
    outcome = Outcome(seed, 0)
    with LiveServer(processes, env={"MCP_AUTH": "required", "DEMO": "off"}) as server:
        installation = Installation(server)
        before = [process.pid for process in server.processes]
        kinds = uvloop.run(attack(installation, outcome, range(first, first + count)))
        end = Case("afterwards", "POST", b"")
        if [process.pid for process in server.processes if process.alive] != before:
            outcome.add(-1, end, "a web process died", server.logs()[-3000:])
            return outcome, kinds
        for what in (*installation.faults(), *server.trouble()):
            outcome.add(-1, end, what, server.logs()[-3000:])
        if count >= LEAST_FOR_GROWTH and outcome.growth > MOST_GROWTH:
            outcome.add(-1, end, f"memory grew by {outcome.growth / 2**20:.1f} MiB", outcome.memory)
    return outcome, kinds


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case, to repeat one")
    parser.add_argument("--processes", type=int, default=2)
    wanted = parser.parse_args(arguments)
    outcome, kinds = run(wanted.count, wanted.seed, wanted.processes, wanted.first)
    for finding in outcome.wrong:
        print(finding)
    print(json.dumps(dict(sorted(kinds.items()))))
    print(outcome.report())
    return 1 if outcome.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
