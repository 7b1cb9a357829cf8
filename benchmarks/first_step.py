"""Measure kinds of tools inside one process: ``python -m benchmarks.first_step [--beside ../before]``.

The processor time of one call, by the HTTP parser's shortcut and by plain ASGI as any other server
calls us. In each round the checkouts take turns, and in each of them the kinds of tools; each is
compared with the async tool that never waits. No sockets are involved, so the shares are lower than
those of clients (``python -m benchmarks.tools.run`` measures these).

``--profile`` counts the function calls of each instead, and lists them if ``BENCH_NAMES`` is set.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import logging
import os
import pstats
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

CALLERS = 32
HERE = Path(__file__).resolve().parent.parent
KINDS = {
    "async, never waits": "echo",
    "async with Context": "echo_in_task",
    "async, awaits": "echo_later",
    "sync": "echo_in_thread",
}
HEADERS = {
    "host": "127.0.0.1:8000",
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
}
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}
Headers = list[tuple[bytes, bytes]]
Turn = Callable[[list[bytes]], Awaitable[None]]
Found = dict[str, list[float]]


def message(number: int, method: str, params: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()


def calls(tool: str) -> list[bytes]:
    """Return a call for each caller."""
    params = {"name": tool, "arguments": {"text": "hello"}}
    return [message(number, "tools/call", params) for number in range(1, CALLERS + 1)]


def check(answer: bytes) -> None:
    assert b'"hello"' in answer, answer


class Transport(asyncio.Transport):
    """A transport that receives a server's output in place of a socket."""

    def __init__(self, answered: Callable[[bytes], None]) -> None:
        super().__init__({"peername": ("127.0.0.1", 9), "sockname": ("127.0.0.1", 8000)})
        self._answered = answered

    def write(self, data: Any) -> None:
        self._answered(data)

    def is_closing(self) -> bool:
        return False

    def resume_reading(self) -> None:
        return

    def close(self) -> None:
        self._answered(b"nothing: it was closed")


class Parsers:
    """Connections of our web server, each processing one request at a time."""

    def __init__(self, headers: Headers) -> None:
        from uvicorn import Config
        from uvicorn.server import ServerState

        from mcp_app.transports.application import mcp
        from mcp_app.transports.streamable_http.shortcut.quick_endpoint import QuickEndpoint
        from mcpsite.http.quick import QuickAnswers

        assert isinstance(mcp.endpoint, QuickEndpoint)
        QuickAnswers.quick = staticmethod(mcp.endpoint.quick)
        config = Config(
            mcp, access_log=False, proxy_headers=False, log_level="warning", timeout_keep_alive=75
        )
        config.load()
        self._connections = [QuickAnswers(config, ServerState(), {}) for _ in range(CALLERS)]
        for connection in self._connections:
            connection.connection_made(Transport(self._on_answer))
        self._head = b"".join([b"%b: %b\r\n" % header for header in headers])
        self._left, self._wrong = 0, b""
        self._all: asyncio.Future[None] | None = None

    async def turn(self, bodies: list[bytes]) -> None:
        """Make one call on each connection."""
        self._left, self._all = CALLERS, None
        for connection, body in zip(self._connections, bodies, strict=True):
            size = b"content-length: %d\r\n\r\n" % len(body)
            connection.data_received(b"POST /mcp HTTP/1.1\r\n" + self._head + size + body)
        if self._left:
            self._all = asyncio.get_running_loop().create_future()
            await self._all
        check(self._wrong or b'"hello"')

    def _on_answer(self, answer: bytes) -> None:
        self._left -= 1
        if b'"hello"' not in answer:
            self._wrong = answer
        if self._all is not None and not self._all.done() and (self._wrong or not self._left):
            self._all.set_result(None)


class Asgi:
    """The endpoint as an ASGI server calls it."""

    def __init__(self, headers: Headers) -> None:
        from mcp_app.transports.application import mcp

        assert mcp.endpoint is not None
        self._endpoint = mcp.endpoint
        self._scope = {
            "type": "http", "method": "POST", "path": "/mcp", "headers": headers, "client": ("127.0.0.1", 9)
        }  # fmt: skip

    async def ask(self, body: bytes) -> list[MutableMapping[str, Any]]:
        """Return the ASGI messages sent in response to one POST."""
        sent: list[MutableMapping[str, Any]] = []

        async def receive() -> MutableMapping[str, Any]:
            return {"type": "http.request", "body": body}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        await self._endpoint(dict(self._scope), receive, send)
        return sent

    async def turn(self, bodies: list[bytes]) -> None:
        """Make one concurrent call per caller."""
        for _, answer in await asyncio.gather(*map(self.ask, bodies)):
            check(answer["body"])


async def started() -> dict[str, Turn]:
    """Return the paths to a tool, in an initialized session."""
    from mcp_app.transports.application import mcp

    await mcp.start()
    headers = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
    head, _ = await Asgi(headers).ask(message(0, "initialize", INITIALIZE))
    headers.append((b"mcp-session-id", dict(head["headers"])[b"mcp-session-id"]))
    return {"short cut": Parsers(headers).turn, "ASGI": Asgi(headers).turn}


async def measure(rounds: int, turns: int) -> Found:
    """Measure in this process: microseconds of processor time per call of each kind on each path."""
    from mcp_app.transports.application import mcp

    ways = await started()
    found: Found = defaultdict(list)
    for number in range(rounds + 1):
        for way, turn in ways.items():
            for kind, tool in KINDS.items():
                bodies = calls(tool)
                begun = time.process_time()
                for _ in range(turns):
                    await turn(bodies)
                seconds = time.process_time() - begun
                if number:  # The first round is a warm-up.
                    found[f"{way}: {kind}"].append(seconds / turns / CALLERS * 1e6)
    await mcp.close()
    return found


async def profile(turns: int) -> None:
    """Print how many functions one call of each kind calls, and the most frequent ones."""
    from mcp_app.transports.application import mcp

    for way, turn in (await started()).items():
        for kind, tool in KINDS.items():
            bodies = calls(tool)
            await turn(bodies)
            with cProfile.Profile() as counted:
                for _ in range(turns):
                    await turn(bodies)
            facts = cast("Any", pstats.Stats(counted))
            one = turns * CALLERS
            print(f"{way}: {kind}: {facts.total_calls / one:.0f} function calls", file=sys.stderr)
            if os.environ.get("BENCH_NAMES"):
                for (file, line, name), (count, *_) in sorted(facts.stats.items()):
                    where = f"{file.removeprefix(str(HERE))}:{line}:{name}"
                    if 2 * count >= one:
                        print(f"    {count / one:6.1f} {where}", file=sys.stderr)
    await mcp.close()


def child(wanted: argparse.Namespace) -> None:
    """Measure the checkout that this process imports, on one core, and print the results."""
    import django
    import uvloop
    from django.core.management import call_command

    os.sched_setaffinity(0, {int(os.environ["BENCH_CORE"])})
    django.setup()
    call_command("migrate", verbosity=0)
    logging.disable(logging.INFO)
    if wanted.profile:
        uvloop.run(profile(wanted.turns))
    else:
        print(json.dumps(uvloop.run(measure(2, wanted.turns))))


def run(checkout: Path, environment: dict[str, str], *options: str) -> Found:
    """Run this script in a new process with the code of ``checkout``."""
    command = [sys.executable, "-P", str(Path(__file__).resolve()), "--child", *options]
    done = subprocess.run(
        command, env={**environment, "PYTHONPATH": f"{checkout}{os.pathsep}{HERE}"}, cwd=checkout,
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"The benchmark failed in {checkout}:\n{done.stderr[-4000:]}")
    sys.stderr.write(done.stderr)
    found: Found = json.loads(done.stdout.splitlines()[-1]) if done.stdout.strip() else {}
    return found


def compare(checkouts: list[Path], rounds: int, environment: dict[str, str], *options: str) -> None:
    """Run all rounds and print a line per row: the median cost, and the share of the rate without waiting."""
    costs: dict[tuple[str, Path], list[float]] = defaultdict(list)
    for number in range(rounds):
        for checkout in checkouts[:: 1 if number % 2 else -1]:
            for row, found in run(checkout, environment, *options).items():
                costs[row, checkout] += found
    never = next(iter(KINDS))
    for row, checkout in sorted(costs):
        own, base = costs[row, checkout], costs[f"{row.partition(':')[0]}: {never}", checkout]
        facts: dict[str, Any] = {"work": row, "checkout": str(checkout)}
        facts["cpu_us"] = round(statistics.median(own), 1)
        facts["of_never_waits"] = round(statistics.median(a / b for a, b in zip(base, own, strict=True)), 2)
        print(json.dumps(facts), flush=True)


@contextmanager
def installation() -> Iterator[dict[str, str]]:
    """Yield the environment of an empty installation: a folder, and a Redis on the last core."""
    from mcpsite.redis_server import RedisServer

    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[-1]})  # For Redis; the measured process has the first core.
    with tempfile.TemporaryDirectory(prefix="mcp-bench-") as folder:
        redis_folder = Path(folder, "redis")
        redis_folder.mkdir()
        server = RedisServer(redis_folder, append_only=False)
        server.start()
        try:
            environment = {
                **os.environ,
                "DATA_DIR": folder,
                "REDIS_URL": server.url,
                "DJANGO_SETTINGS_MODULE": "benchmarks.hops.settings",
                "SECRET_KEY": "only for the benchmark, which nobody can reach",
                "BENCH_CORE": str(cores[0]),
            }
            environment.pop("DATABASE_URL", None)
            yield environment
        finally:
            server.stop()
            os.sched_setaffinity(0, set(cores))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--beside", type=Path, help="a checkout of another commit, measured in turns")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--turns", type=int, default=60)
    parser.add_argument("--profile", action="store_true", help="count function calls instead")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.child:
        child(wanted)
        return
    checkouts = [HERE, *([wanted.beside.resolve()] if wanted.beside else [])]
    options = ("--turns", str(wanted.turns))
    with installation() as environment:
        if wanted.profile:
            run(HERE, environment, "--profile", *options)
        else:
            compare(checkouts, wanted.rounds, environment, *options)


if __name__ == "__main__":
    main()
