"""R16: readers that never read cost bounded memory and do not slow other clients."""

from __future__ import annotations

import json
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress

import pytest

from tests.chaos.checker import Promise
from tests.chaos.cluster import Cluster
from tests.chaos.generator import call, open_session
from tests.clients.raw_http import Mcp
from tests.clients.raw_wire import request_bytes
from tests.servers.live import eventually

STALLED = 200
NORMAL = 50
CALLS = 20
# The best of five still varied by a factor of five between runs: a gigabyte of log is written meanwhile.
ROUNDS = 20
# More than the kernel buffers for a reader that does not read, so that the server holds the rest.
LINES = 300
LINE_BYTES = 16 * 1024
MIB = 1024 * 1024
# A gigabyte passes through Redis meanwhile: half a minute on an idle machine.
SAID_SECONDS = 240.0


def _best_latencies(session: Mcp, ports: list[int]) -> list[float]:
    """Return the best of some rounds at each process, in turns, to exclude other load of the machine."""
    rounds = [[_latency(session, port) for port in ports] for _ in range(ROUNDS)]
    return [min(times) for times in zip(*rounds, strict=True)]


@pytest.fixture
def sockets() -> Iterator[ExitStack]:
    """Close all opened sockets at the end."""
    with ExitStack() as stack:
        yield stack


def _stall(session: Mcp, port: int, nonce: str) -> socket.socket:
    """POST a call with much output and never read it; retry while the server is too busy to accept it."""
    params = {"name": "shout", "arguments": {"nonce": nonce, "count": LINES, "size": LINE_BYTES}}
    message = {"jsonrpc": "2.0", "id": nonce, "method": "tools/call", "params": params}
    body = json.dumps(message).encode()
    for _ in range(20):
        made = socket.socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        made.settimeout(60)
        made.connect(("127.0.0.1", port))
        made.sendall(request_bytes("POST", "/mcp", f"127.0.0.1:{port}", session.headers(), body))
        if not made.recv(12, socket.MSG_PEEK).endswith(b" 503"):
            return made
        made.close()
    raise AssertionError("The server took the call in none of twenty attempts.")


def _drained(stalled: socket.socket) -> int:
    """Return the number of bytes that still arrive until the connection ends or falls silent."""
    stalled.settimeout(0.2)
    count = 0
    with suppress(ConnectionError, TimeoutError):
        while piece := stalled.recv(MIB):
            count += len(piece)
    return count


def _latency(session: Mcp, port: int) -> float:
    """Return the 99th percentile latency in seconds of quick calls by fifty concurrent clients."""
    times: list[float] = []

    def one() -> None:
        with closing(session.via(port)) as client:
            client.next_id = secrets.randbits(48)
            for _ in range(CALLS):
                began = time.perf_counter()
                assert "result" in client.tool("quick", nonce="q")
                times.append(time.perf_counter() - began)

    threads = [threading.Thread(target=one) for _ in range(NORMAL)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(times) == NORMAL * CALLS
    return sorted(times)[len(times) * 99 // 100]


# A gigabyte in a minute: parallel tests with time limits would fail on any machine.
@pytest.mark.alone
def test_stalled_readers_cost_little_memory_and_slow_no_other_client(
    start_cluster: Callable[..., Cluster], sockets: ExitStack
) -> None:
    names = [f"r16-{number}" for number in range(STALLED)]
    limits = {
        "STALL_SECONDS": 2 * SAID_SECONDS,
        "MAX_STREAM_BYTES": MIB,
        "MAX_STREAMS_PER_PRINCIPAL": 1_000,
        # Redis keeps all output until it is read; it has its own limit (R31).
        "MAX_KEPT_BYTES_PER_PRINCIPAL": 0,
        "MAX_KEPT_PERCENT_PER_PRINCIPAL": 0,
    }
    cluster = start_cluster(
        web_processes=2, concurrency=4, max_memory="600mb", env={"LEDGER_MCP": json.dumps(limits)}
    )
    session = open_session(cluster)
    process, free = cluster.processes
    _best_latencies(session, [process.port, free.port])
    before = process.rss
    stalled = [sockets.enter_context(_stall(session, process.port, name)) for name in names]
    eventually(lambda: len(cluster.lines(what="end")) == STALLED, SAID_SECONDS, "the end of all that is said")
    cluster.strike(f"{STALLED} readers stopped")
    print(f"memory of the web process: {(process.rss - before) / MIB / STALLED:.2f} MiB for each")
    assert process.rss - before < STALLED * MIB
    beside, alone = _best_latencies(session, [process.port, free.port])
    print(f"p99 of {NORMAL} clients: {alone * 1e3:.1f} ms, beside stalled readers {beside * 1e3:.1f} ms")
    # Generous: the machine is shared. A server that is blocked at all is slower by orders of magnitude.
    assert beside < 2 * alone + 0.02
    normal = call(cluster, session, "normal", "work_once", steps=20).join()
    assert normal.answered
    # They really lagged: most of their missed output was not kept. The kernel's buffer size for a
    # reader differs.
    assert sum(_drained(each) < LINES * LINE_BYTES for each in stalled) > STALLED / 2
    cluster.check(Promise(most_starts=1))
