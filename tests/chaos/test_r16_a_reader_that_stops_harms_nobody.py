"""R16: readers that never read cost bounded memory and slow nobody down."""

from __future__ import annotations

import json
import socket
import statistics
import time
from collections.abc import Callable
from contextlib import closing, suppress

from tests.chaos.checker import Promise
from tests.chaos.cluster import Cluster
from tests.chaos.generator import call, open_session
from tests.raw_http import Mcp
from tests.raw_wire import request_bytes

STALLED = 8
LINES = 600
LINE_BYTES = 16 * 1024
MIB = 1024 * 1024


def _stall(session: Mcp, port: int, nonce: str) -> socket.socket:
    """POST a call that says much, and never read a byte of it."""
    params = {"name": "shout", "arguments": {"nonce": nonce, "count": LINES, "size": LINE_BYTES}}
    message = {"jsonrpc": "2.0", "id": nonce, "method": "tools/call", "params": params}
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.connect(("127.0.0.1", port))
    body = json.dumps(message).encode()
    made.sendall(request_bytes("POST", "/mcp", f"127.0.0.1:{port}", session.headers(), body))
    return made


def _drained(stalled: socket.socket) -> int:
    """How many bytes still come, until the connection ends or is silent."""
    stalled.settimeout(1)
    count = 0
    with suppress(ConnectionError, TimeoutError):
        while piece := stalled.recv(MIB):
            count += len(piece)
    return count


def _latency(session: Mcp, port: int) -> float:
    """The median time of a quick call, in seconds."""
    times = []
    with closing(session.via(port)) as client:
        for _ in range(60):
            began = time.perf_counter()
            assert "result" in client.tool("quick", nonce="q")
            times.append(time.perf_counter() - began)
    return statistics.median(times)


def test_stalled_readers_cost_little_memory_and_do_not_slow_the_others(
    start_cluster: Callable[..., Cluster],
) -> None:
    limits = {"STALL_SECONDS": 3.0, "MAX_STREAM_BYTES": MIB}
    cluster = start_cluster(web_processes=1, env={"LEDGER_MCP": json.dumps(limits)})
    session = open_session(cluster)
    process = cluster.processes[0]
    _latency(session, process.port)
    idle, before = _latency(session, process.port), process.rss
    stalled = [_stall(session, process.port, f"r16-{number}") for number in range(STALLED)]
    for number in range(STALLED):
        cluster.wait_for(f"r16-{number}", "end", seconds=60)
    cluster.strike(f"{STALLED} readers stopped")
    # One MiB each and some for the process itself; what was said is ten times as much.
    assert process.rss - before < STALLED * MIB + 8 * MIB
    # Generous: the machine is shared. A server that is held up at all is slower by orders of magnitude.
    assert _latency(session, process.port) < 5 * idle + 0.01
    normal = call(cluster, session, "normal", "work_once", steps=20).join()
    assert normal.answered
    # They really were behind: what they missed did not wait for them.
    for each in stalled:
        with each:
            assert _drained(each) < LINES * LINE_BYTES
    cluster.check(Promise(most_starts=1))
