"""A console page without a browser: it records when each message arrived, and confirms frames."""

from __future__ import annotations

import asyncio
import time

import orjson
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, CloseConnection, Ping, Request, TextMessage

from benchmarks.load import WrongAnswer
from tests.servers.live import LiveServer

SIGN_IN = """
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, get_user_model
from django.contrib.sessions.backends.db import SessionStore
user = get_user_model().objects.create_superuser("watcher", "w@example.com", "x")
store = SessionStore()
store[SESSION_KEY], store[HASH_SESSION_KEY] = str(user.pk), user.get_session_auth_hash()
store[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
store.create()
print(store.session_key)
"""


def sign_in(server: LiveServer) -> str:
    """Return the session key of a new superuser."""
    return server.shell(SIGN_IN).strip().splitlines()[-1]


class Viewer(asyncio.Protocol):
    """A viewer of the messages of all sessions. ``seen`` maps each request id to its arrival time."""

    def __init__(self, port: int, session_key: str) -> None:
        self._port, self._key = port, session_key
        self._wire = WSConnection(ConnectionType.CLIENT)
        self._text: list[str] = []
        self.seen: dict[str, float] = {}
        self.skipped = 0
        self.watching = asyncio.get_running_loop().create_future()
        self.closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        host = f"127.0.0.1:{self._port}"
        headers = [(b"origin", f"http://{host}".encode()), (b"cookie", f"sessionid={self._key}".encode())]
        self.transport.write(self._wire.send(Request(host=host, target="/console/ws", extra_headers=headers)))

    def data_received(self, data: bytes) -> None:
        arrived = time.monotonic()
        self._wire.receive_data(data)
        for event in self._wire.events():
            if isinstance(event, AcceptConnection):
                self._say({"watch": "messages", "search": "tool:echo", "session": ""})
            elif isinstance(event, TextMessage):
                self._text.append(event.data)
                if event.message_finished:
                    self._frame(orjson.loads("".join(self._text)), arrived)
                    self._text.clear()
            elif isinstance(event, Ping):
                self.transport.write(self._wire.send(event.response()))
            elif isinstance(event, CloseConnection):
                self._lost(f"closed: {event.code}")
            else:
                self._lost(f"{event}")

    def connection_lost(self, _: Exception | None) -> None:
        self._lost("the connection was lost")

    def _frame(self, frame: dict, arrived: float) -> None:  # type: ignore[type-arg]
        for row in frame["rows"]:
            self.seen[row["id"]] = arrived
        self.skipped += frame["skipped"]
        if "watching" in frame and not self.watching.done():
            self.watching.set_result(None)
        self._say({"drawn": frame["frame"]})

    def _say(self, said: dict[str, object]) -> None:
        self.transport.write(self._wire.send(TextMessage(orjson.dumps(said).decode())))

    def _lost(self, why: str) -> None:
        if not self.closed and not self.watching.done():
            self.watching.set_exception(WrongAnswer(why))

    def close(self) -> None:
        self.closed = True
        self.transport.close()
