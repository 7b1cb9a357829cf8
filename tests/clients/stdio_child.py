"""The stdio server as a child process, with a hand-written client that records every byte of its output."""

from __future__ import annotations

import json
import queue
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.bounds import PATIENCE
from tests.servers.warm import Installation

ROOT = Path(__file__).resolve().parent.parent.parent
# The command, for clients that start their server themselves.
COMMAND = (sys.executable, "-m", "tests.servers.live_stdio")


class Child:
    """One stdio server and its hand-written client. Every line of the output must be JSON."""

    def __init__(self, installation: Installation, *arguments: str, counted: bool = False) -> None:
        self.process = installation.open("tests.servers.live_stdio", *arguments)
        self.counted = counted
        self.errors: list[str] = []
        self.received: list[Any] = []
        self._messages: queue.Queue[Any] = queue.Queue()
        self._threads = [threading.Thread(target=read) for read in (self._read, self._read_errors)]
        for thread in self._threads:
            thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        while head := self.process.stdout.readline():
            if self.counted:
                size = int(head.partition(b":")[2])
                assert self.process.stdout.readline() == b"\r\n"
                self._messages.put(json.loads(self.process.stdout.read(size)))
            else:
                self._messages.put(json.loads(head))
        self._messages.put(None)

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.errors.append(line.decode())

    def send(self, message: Any) -> None:
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        assert self.process.stdin is not None
        head = b"Content-Length: %d\r\n\r\n" % len(body) if self.counted else b""
        self.process.stdin.write(head + body + (b"" if self.counted else b"\n"))
        self.process.stdin.flush()

    def request(self, request_id: Any, method: str, params: dict[str, Any] | None = None) -> None:
        self.send({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params or {}})

    def message(self) -> Any:
        """Return the next message, or None at the end of the output."""
        return self._messages.get(timeout=PATIENCE)

    def call(self, request_id: Any, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the response to one request. Earlier messages are added to ``received``."""
        self.request(request_id, method, params)
        return self.answer_to(request_id)

    def answer_to(self, request_id: Any) -> dict[str, Any]:
        while (message := self.message()).get("id") != request_id or "method" in message:
            self.received.append(message)
        return dict(message)

    def initialize(
        self, version: str = "2025-11-25", capabilities: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        client = {"name": "raw", "version": "1"}
        params = {"protocolVersion": version, "capabilities": capabilities or {}, "clientInfo": client}
        result: dict[str, Any] = self.call("init", "initialize", params)["result"]
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return result

    def end(self) -> int:
        """Close the child's input and return its exit code. Fail if it does not exit in time."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        return self.process.wait(timeout=10)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        for thread in self._threads:
            thread.join()
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()
