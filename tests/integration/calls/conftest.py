"""Two web processes, a worker with two children, and sessions on them."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from mcp_app.execution.admission.checks import NO_DATABASE
from tests.bounds import PATIENCE
from tests.clients.raw_http import EventStream, Mcp
from tests.ledger_app import ledger
from tests.servers.live import LiveServer, eventually

CAPABILITIES: dict[str, Any] = {"elicitation": {"form": {}}, "sampling": {}}
OpenSession = Callable[..., Mcp]

# Diagnostics of a call that does not start: its row, and the jobs in Celery's main process.
WAITING = """
from django.core.serializers import serialize
from mcp_app.models import Call
from mcpsite.celery import app
fields = ("tool", "state", "attempt", "worker", "enqueued_at", "lease_until", "cancel_requested_at")
print(serialize("json", Call.objects.filter(finished_at=None), fields=fields))
asked = app.control.inspect(timeout=3)
print(asked.active(), asked.reserved(), asked.stats())
"""


class Installation(LiveServer):
    """A live server whose tools write a ledger."""

    @property
    def ledger_path(self) -> Path:
        return self.folder / "data" / "ledger"

    def lines(self, nonce: str, what: str = "") -> list[ledger.Line]:
        return [line for line in ledger.read(self.ledger_path, nonce) if what in ("", line.what)]

    def started(self, nonce: str, what: str = "start") -> ledger.Line:
        """Return the last line of that kind; wait for the first one."""
        try:
            eventually(lambda: self.lines(nonce, what), 15, f"{what} of {nonce}")
        except AssertionError as error:
            said = self.shell(WAITING) + self.logs()[-3000:]
            raise AssertionError(f"{error}; children {self.worker_processes[0].children}: {said}") from None
        return self.lines(nonce, what)[-1]

    def still_for(self, nonce: str, seconds: float) -> bool:
        """Return True if the tool writes nothing for that long."""
        before = len(self.lines(nonce))
        time.sleep(seconds)
        return len(self.lines(nonce)) == before


def start_call(client: Mcp, tool: str, *, via: str | int | None = None, **arguments: Any) -> EventStream:
    """POST a background call whose request id and progress token are its nonce; return its open stream.

    A call that a busy SQLite file refused was not stored, so it is sent again as its answer says.
    """
    nonce = arguments["nonce"]
    message = {
        "jsonrpc": "2.0",
        "id": via or nonce,
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments, "_meta": {"progressToken": nonce}},
    }
    deadline = time.monotonic() + PATIENCE
    while True:
        found = client.client.open_stream("POST", client.path, client.headers(), json.dumps(message).encode())
        if isinstance(found, EventStream):
            return found
        assert NO_DATABASE.encode() in found.body, found
        assert time.monotonic() < deadline, found


def text_of(message: dict[str, Any]) -> str:
    return str(message["result"]["content"][0]["text"])


def unexplained(server: LiveServer) -> list[str]:
    """Return unexpected lines of the logs; Celery logs each exited child twice."""
    told = 2 * server.logs().count("Task handler raised error: WorkerLostError")
    return server.trouble()[told:]


@pytest.fixture(scope="package")
def live() -> Iterator[Installation]:
    with Installation(2, settings="tests.ledger_app.settings", worker=True) as server:
        assert isinstance(server, Installation)
        yield server
        assert not unexplained(server), server.logs()[-4000:]


@pytest.fixture
def open_session(live: Installation) -> Iterator[OpenSession]:
    with ExitStack() as stack:

        def opened(version: str = "2025-11-25", process: int = 0, **more: Any) -> Mcp:
            client = stack.enter_context(closing(live.mcp(process, **more)))
            client.initialize(version, CAPABILITIES)
            # A call left running by a failed test would block the calls of the next test.
            stack.callback(client.delete)
            return client

        yield opened


@pytest.fixture
def client(open_session: OpenSession) -> Mcp:
    return open_session()


@pytest.fixture
def elsewhere(client: Mcp, live: Installation) -> Iterator[Mcp]:
    """Return the same session at the other process."""
    with closing(client.via(live.ports[1])) as other:
        yield other


@pytest.fixture
def nonce() -> str:
    return f"n{secrets.token_hex(5)}"
