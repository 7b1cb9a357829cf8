"""A bystander client that calls a tool repeatedly and prints its response times.

It is a separate process: a process that reads thousands of streams could not separate its own delays
from the server's. It starts with a line on its standard input and stops with the next, when it prints
the milliseconds.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time

from benchmarks import scenarios
from benchmarks.load import Script, whole_reply

PAUSE_SECONDS = 0.002


def main() -> None:
    port = int(sys.argv[1])
    script = scenarios.alone(port, scenarios.ECHO, scenarios.check_echo)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        request = next(script)
        for _ in range(20):
            request = _call(connection, script, request)
        print("ready", flush=True)
        while sys.stdin.readline():
            waited = []
            while not select.select([sys.stdin], [], [], PAUSE_SECONDS)[0]:
                began = time.monotonic()
                request = _call(connection, script, request)
                waited.append((time.monotonic() - began) * 1000)
            sys.stdin.readline()
            print(json.dumps(waited), flush=True)


def _call(connection: socket.socket, script: Script, request: bytes | None) -> bytes | None:
    """Make one call, check its response and return the next request."""
    assert request is not None
    connection.sendall(request)
    buffer = b""
    while (reply := whole_reply(buffer)) is None:
        received = connection.recv(65536)
        if not received:
            raise ConnectionError("the server closed a keep-alive connection")
        buffer += received
    script.send(reply)
    return next(script)


if __name__ == "__main__":
    main()
