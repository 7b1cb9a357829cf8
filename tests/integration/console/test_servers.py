"""The console's WebSocket on real servers: uvicorn with two processes, and Daphne beside them."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    CloseConnection,
    Event,
    Ping,
    RejectConnection,
    Request,
    TextMessage,
)

from benchmarks.console.viewer import sign_in
from tests.clients.raw_http import RawClient
from tests.process.installation import free_port
from tests.servers.live import ROOT, LiveServer, eventually

pytestmark = pytest.mark.process
PATIENCE = 60.0


@pytest.fixture(scope="module")
def live() -> Iterator[LiveServer]:
    with LiveServer(web_processes=2, worker=True, concurrency=1) as server:
        yield server
        assert server.trouble() == []


@pytest.fixture(scope="module")
def key(live: LiveServer) -> str:
    return sign_in(live)


@pytest.fixture(scope="module")
def daphne(live: LiveServer) -> Iterator[int]:
    """Return the port of a Daphne process that has served only its health check."""
    port = free_port()
    command = str(Path(sys.executable).with_name("daphne"))
    with (live.folder / "daphne.log").open("wb") as log:
        server = subprocess.Popen(
            [command, "-b", "127.0.0.1", "-p", str(port), "mcpsite.asgi:application"],
            cwd=ROOT, env=live.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        eventually(lambda: _answers(port), PATIENCE, "Daphne answers")
        yield port
    finally:
        server.terminate()
        server.wait(15)
    assert "Traceback" not in (live.folder / "daphne.log").read_text(errors="replace")


def _answers(port: int) -> bool:
    with suppress(OSError), RawClient("127.0.0.1", port, patience=5) as raw:
        return raw.request("GET", "/healthz").status == 200
    return False


class Socket:
    """A WebSocket client without a library connection."""

    def __init__(self, port: int, key: str, *, origin: str = "", path: str = "/console/ws") -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self._wire = WSConnection(ConnectionType.CLIENT)
        host = f"127.0.0.1:{port}"
        headers = [
            (b"origin", (origin or f"http://{host}").encode()),
            (b"cookie", f"sessionid={key}".encode()),
        ]
        self._events: list[Event] = []
        self.send(Request(host=host, target=path, extra_headers=headers))

    def send(self, event: Event) -> None:
        self._socket.sendall(self._wire.send(event))

    def event(self) -> Event:
        while not self._events:
            data = self._socket.recv(65_536)
            self._wire.receive_data(data or None)
            self._events += [each for each in self._wire.events() if not isinstance(each, Ping)]
        return self._events.pop(0)

    def say(self, **said: Any) -> None:
        self.send(TextMessage(orjson.dumps(said).decode()))

    def frame(self) -> dict[str, Any]:
        text = ""
        while True:
            event = self.event()
            assert isinstance(event, TextMessage), event
            text += event.data
            if event.message_finished:
                frame: dict[str, Any] = orjson.loads(text)
                self.say(drawn=frame["frame"])
                return frame

    def watch(self, session: str) -> None:
        assert isinstance(self.event(), AcceptConnection)
        self.say(watch="messages", search="", session=session)
        while "watching" not in self.frame():
            pass

    def close(self) -> None:
        self._socket.close()


def watching(port: int, key: str, session: str) -> Socket:
    """Return a page that watches a session. Daphne resets handshakes that take five seconds: open another."""
    deadline = time.monotonic() + PATIENCE
    while True:
        page = Socket(port, key)
        try:
            page.watch(session)
        except ConnectionResetError:
            page.close()
            if time.monotonic() > deadline:
                raise
        else:
            return page


@pytest.mark.parametrize("server", ["uvicorn", "daphne"])
def test_page_shows_messages_of_another_process(server: str, live: LiveServer, daphne: int, key: str) -> None:
    port = live.ports[0] if server == "uvicorn" else daphne
    with closing(live.mcp(1)) as client:
        client.initialize()
        with closing(watching(port, key, str(client.session))) as page:
            client.call("tools/call", {"name": "echo", "arguments": {"text": "hello"}})
            while not (rows := [row for row in page.frame()["rows"] if row["method"] == "tools/call"]):
                pass
    assert rows[0]["process"].endswith(f":{live.processes[1].pid}")
    assert rows[0]["summary"] == '{"text":"hello"}'


@pytest.mark.parametrize("server", ["uvicorn", "daphne"])
@pytest.mark.parametrize("wrong", ["origin", "cookie", "path"])
def test_unauthorized_handshake_is_rejected(
    wrong: str, server: str, live: LiveServer, daphne: int, key: str
) -> None:
    port = live.ports[0] if server == "uvicorn" else daphne
    more = {"origin": {"origin": "http://127.0.0.1:1"}, "path": {"path": "/mcp"}}.get(wrong, {})
    with closing(Socket(port, "" if wrong == "cookie" else key, **more)) as page:
        answer = page.event()
        assert isinstance(answer, RejectConnection)
        assert answer.status_code == 403


def test_running_call_and_resumed_stream_are_shown(live: LiveServer, key: str) -> None:
    with closing(live.mcp(1)) as client, closing(Socket(live.ports[0], key)) as page:
        client.initialize()
        page.watch(str(client.session))
        params = {
            "name": "count",
            "arguments": {"to": 30, "delay_seconds": 0.1},
            "_meta": {"progressToken": "p"},
        }
        with client.open_call("tools/call", params) as stream:
            first = stream.next()
            assert first is not None
        with closing(client.via(live.ports[0])) as elsewhere, elsewhere.get_stream(first.id) as stream:
            while (message := stream.message()) is not None and "result" not in message:
                pass
        rows: list[dict[str, Any]] = []
        while not any(row["kind"] == "request" and row["method"] == "tools/call" for row in rows):
            rows += page.frame()["rows"]
    kinds = [row["kind"] for row in rows]
    assert kinds.count("running") == kinds.count("resumed") == 1
    (progress,) = {row["method"] for row in rows if row["kind"] == "notification" and row["dir"] == "out"}
    assert progress == "notifications/progress"
    # About one event a second for the ten seconds.
    assert 2 <= kinds.count("notification") <= 10
    assert len({row["id"] for row in rows if row["target"] == "count"}) == 1


def test_oversized_message_closes_the_connection(live: LiveServer, key: str) -> None:
    with closing(Socket(live.ports[0], key)) as page:
        assert isinstance(page.event(), AcceptConnection)
        page.send(TextMessage("x" * 20_000))
        closed = page.event()
        assert isinstance(closed, CloseConnection)
        assert closed.code in (1009, 4400)


def test_watched_process_stops_in_time(live: LiveServer, key: str) -> None:
    with closing(live.mcp(1)) as client, closing(Socket(live.ports[0], key)) as page:
        client.initialize()
        page.watch(str(client.session))
        # A process that does not stop is killed, which has another exit status.
        assert live.processes[0].stop() in (0, -signal.SIGTERM)
        assert isinstance(page.event(), CloseConnection | TextMessage)
