"""A TCP proxy that misbehaves on request: cuts connections, or drops messages to subscribers."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress

PIECE = 65_536


class Proxy:
    """A forwarder to a local port. ``budget`` gives each connection the bytes it may receive."""

    def __init__(self, target: int, budget: Callable[[], int | None] = lambda: None) -> None:
        self._target = target
        self._budget = budget
        self.muted = False
        self._pairs: list[_Pair] = []
        self.cuts = 0
        self.swallowed = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        port: int = self._listening.getsockname()[1]
        return port

    def close(self) -> None:
        self._closed = True
        self._listening.close()

    def forget(self) -> None:
        """Silence every existing connection without closing it."""
        for pair in self._pairs:
            pair.forgotten = True

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._target), timeout=5)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            pair = _Pair(self, client, server, self._budget())
            self._pairs.append(pair)
            threading.Thread(target=pair.upwards, daemon=True).start()
            threading.Thread(target=pair.downwards, daemon=True).start()


class _Pair:
    """One connection through the proxy."""

    def __init__(
        self, proxy: Proxy, client: socket.socket, server: socket.socket, budget: int | None
    ) -> None:
        self._proxy, self._client, self._server, self._budget = proxy, client, server, budget
        self._subscriber = False
        self.forgotten = False

    def upwards(self) -> None:
        with suppress(OSError):
            while data := self._client.recv(PIECE):
                # Redis: from here on the connection only listens.
                self._subscriber = self._subscriber or b"SUBSCRIBE\r\n" in data
                if not self.forgotten:
                    self._server.sendall(data)
        if self.forgotten:
            return
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_WR)

    def downwards(self) -> None:
        with suppress(OSError):
            while data := self._server.recv(PIECE):
                if self.forgotten:
                    continue
                if self._subscriber and self._proxy.muted:
                    self._proxy.swallowed += len(data)
                    continue
                if self._budget is not None and len(data) >= self._budget:
                    self._client.sendall(data[: self._budget])
                    self._reset()
                    break
                self._client.sendall(data)
                if self._budget is not None:
                    self._budget -= len(data)
        for each in (self._client, self._server):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _reset(self) -> None:
        """Reset after exactly so many bytes; wait, because the reset discards bytes in flight."""
        self._proxy.cuts += 1
        self._client.shutdown(socket.SHUT_WR)
        self._client.settimeout(0.05)
        with suppress(OSError):
            self._client.recv(1)
        self._client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
