"""A proxy in front of a real Redis that answers selected commands itself."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from io import BufferedReader

PIECE = 65_536
LISTENING = (b"SUBSCRIBE", b"PSUBSCRIBE")
# Errors from a Redis server that cannot or may not execute a command.
ERRORS = {
    "READONLY": b"-READONLY You can't write against a read only replica.\r\n",
    "NOREPLICAS": b"-NOREPLICAS Not enough good replicas to write.\r\n",
    "MISCONF": b"-MISCONF Errors writing to the AOF file: No space left on device\r\n",
    "OOM": b"-OOM command not allowed when used memory > 'maxmemory'.\r\n",
    "LOADING": b"-LOADING Redis is loading the dataset in memory\r\n",
    "NOAUTH": b"-NOAUTH Authentication required.\r\n",
    "NOPERM": b"-NOPERM this user has no permissions to run this command\r\n",
    "MASTERDOWN": b"-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n",
    "CLUSTERDOWN": b"-CLUSTERDOWN The cluster is down\r\n",
    "MOVED": b"-MOVED 866 127.0.0.1:7001\r\n",
    "ASK": b"-ASK 866 127.0.0.1:7001\r\n",
    "TRYAGAIN": b"-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
    "BUSY": b"-BUSY Redis is busy running a script. You can only call SCRIPT KILL.\r\n",
    "EXECABORT": b"-EXECABORT Transaction discarded because of previous errors.\r\n",
    "ERR": b"-ERR max number of clients reached\r\n",
    "NEWCODE": b"-NEWCODE an error that no version has yet\r\n",
}
# A lost connection, or a peer that is not Redis.
BREAKS = {"broken": b"HTTP/1.1 400 Bad Request\r\n\r\n", "closed": b""}
# The response to another command.
MISTAKEN = {"number": b":1\r\n", "text": b"+OK\r\n", "list": b"*3\r\n:1\r\n$1\r\nx\r\n$-1\r\n"}
ANSWERS = {**ERRORS, **BREAKS, **MISTAKEN}


class RedisAnswers:
    """A proxy to a local port that answers the commands named in ``refuse`` itself.

    ``seen`` counts the received commands, ``refused`` the commands answered here.
    """

    def __init__(self, target: int) -> None:
        self.seen: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self._target = target
        self._answer: Callable[[str], bytes | None] = lambda _: None
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        port: int = self._listening.getsockname()[1]
        return port

    def refuse(self, answer: bytes, *names: str) -> None:
        """Return ``answer`` to the commands with these names, or to all, from now on."""
        self._answer = lambda name: answer if not names or name in names else None

    def allow(self) -> None:
        """Forward every command again."""
        self._answer = lambda _: None

    def close(self) -> None:
        self._listening.close()
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def answer(self, name: str) -> bytes | None:
        """Count a command and return its answer, or None to forward it."""
        self.seen[name] += 1
        answer = self._answer(name)
        self.refused[name] += answer is not None
        return answer

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self._target))
                except OSError:
                    client.close()
                    continue
                self._sockets += (client, server)
                threading.Thread(target=_Conversation(self, client, server).run, daemon=True).start()


class _Conversation:
    """One connection: commands are served in order; a subscribed connection also forwards messages."""

    def __init__(self, answers: RedisAnswers, client: socket.socket, server: socket.socket) -> None:
        self._answers, self._client, self._server = answers, client, server
        self._commands, self._replies = client.makefile("rb"), server.makefile("rb")
        self._subscribed = False
        self._in_transaction = self._aborted = False

    def run(self) -> None:
        with suppress(OSError, EOFError, ValueError):
            while self._exchange(_raw(self._commands)):
                pass
        for each in (self._client, self._server):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _exchange(self, command: bytes) -> bool:
        """Serve one command. Return False if the connection ends with it."""
        name = command.split(b"\r\n")[2].upper()
        answer = self._answers.answer(name.decode())
        if answer == b"":
            return False
        if answer is not None:
            self._aborted = self._aborted or self._in_transaction
            if name == b"EXEC":
                self._ask(b"*1\r\n$7\r\nDISCARD\r\n")
                self._in_transaction = self._aborted = False
            self._client.sendall(answer)
        elif name == b"EXEC" and self._aborted:
            self._ask(b"*1\r\n$7\r\nDISCARD\r\n")
            self._in_transaction = self._aborted = False
            self._client.sendall(ANSWERS["EXECABORT"])
        elif self._subscribed or name in LISTENING:
            self._listen()
            self._server.sendall(command)
        else:
            self._in_transaction = name == b"MULTI" or (self._in_transaction and name != b"EXEC")
            self._client.sendall(self._ask(command))
        return True

    def _ask(self, command: bytes) -> bytes:
        self._server.sendall(command)
        return _raw(self._replies)

    def _listen(self) -> None:
        if not self._subscribed:
            self._subscribed = True
            threading.Thread(target=self._downwards, daemon=True).start()

    def _downwards(self) -> None:
        with suppress(OSError, ValueError):
            while data := self._replies.read1(PIECE):
                self._client.sendall(data)
        with suppress(OSError):
            self._client.shutdown(socket.SHUT_RDWR)


def _raw(stream: BufferedReader) -> bytes:
    """Return one complete message of the protocol, version 2 or 3, as sent."""
    line = stream.readline()
    if not line:
        raise EOFError
    kind, size = line[:1], line[1:-2]
    if kind in b"$=!" and size != b"-1":
        return line + stream.read(int(size) + 2)
    if kind in b"*~>%|" and size != b"-1":
        parts = int(size) * (2 if kind in b"%|" else 1) + (kind == b"|")
        return line + b"".join(_raw(stream) for _ in range(parts))
    return line
