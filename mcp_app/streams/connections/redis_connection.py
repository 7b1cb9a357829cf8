"""A connection to Redis that reconnects automatically.

A connection of the Redis library needs a coroutine and several awaits for each command. Here bytes pass
directly from the socket to the parser, and replies pass to a callback. This makes it cheap to send one
batch per turn of the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
from collections.abc import Callable, Sequence
from typing import Any, cast

import hiredis

from mcp_app.streams.base import StreamsError, StreamsFull, StreamsUnavailable
from mcp_app.streams.connections.client import CLUSTER, TIMEOUT, RedisAddress

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
STEADY = 5.0  # a connection that lasted this long resets the pause
# The code in an error reply. Redis 6.2 puts the code of an error inside a script into the text of another
# error.
_CODE = re.compile(r"(?:^|: -)([A-Z]+)\b")
# Codes of a wrong or forbidden command. Any other code means that Redis cannot serve at the moment.
_REFUSED = frozenset({"", "ERR", "NOPERM", "NOSCRIPT", "WRONGTYPE"})
_CROWDED = "max number of clients"
_CLUSTER = frozenset({"ASK", "CLUSTERDOWN", "CROSSSLOT", "MOVED"})


def fault(reply: Exception) -> StreamsError:
    """Convert an error reply into an exception of this package."""
    text = str(reply)[:300]
    code = (_CODE.findall(text) or [""])[-1]
    if code == "OOM":
        return StreamsFull("Redis has reached its memory limit.")
    if code in _REFUSED and _CROWDED not in text:
        return StreamsError(f"Redis refused a command: {text}")
    return StreamsUnavailable(f"{CLUSTER if code in _CLUSTER else 'Redis cannot serve now'}: {text}")


# Encodes one command. The annotation of the library wrongly declares a tuple of exactly one element.
pack: Callable[[tuple[str | int | bytes, ...]], bytes] = hiredis.pack_command  # type: ignore[assignment]


class _Connection(asyncio.Protocol):
    """A socket that feeds the parser and passes replies on.

    The first ``greetings`` replies belong to the login.
    """

    def __init__(self, greetings: int, on_reply: Callable[[Any], None]) -> None:
        loop = asyncio.get_running_loop()
        self.greeted: asyncio.Future[None] = loop.create_future()
        self.lost: asyncio.Future[None] = loop.create_future()
        self._greetings = greetings
        self._on_reply = on_reply
        self._reader = hiredis.Reader(notEnoughData=self)
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # The transports of uvloop do not inherit from asyncio's transports, so an assertion would fail.
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        try:
            while (reply := self._reader.gets()) is not self:
                if self._greetings:
                    self._greet(reply)
                else:
                    self._on_reply(reply)
        except hiredis.ProtocolError:
            self.abort()

    def _greet(self, reply: Any) -> None:
        self._greetings -= 1
        if self.greeted.done():
            return
        if isinstance(reply, hiredis.ReplyError):
            self.greeted.set_exception(fault(reply))
        elif not self._greetings:
            self.greeted.set_result(None)

    def connection_lost(self, _: Exception | None) -> None:
        if not self.greeted.done():
            self.greeted.set_exception(StreamsUnavailable("Redis closed the connection."))
        if not self.lost.done():
            self.lost.set_result(None)

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()


class RedisConnection:
    """A connection that is opened again when it is lost, with growing pauses between attempts.

    ``state`` is "connecting", "up", "down" (before the next attempt) or "closed". ``greeting`` contains
    commands to send after each login. ``on_up`` is called when a new connection accepts writes, and
    ``on_down`` when a connection was lost or an attempt failed.
    """

    def __init__(
        self,
        endpoint: RedisAddress,
        *,
        greeting: Sequence[tuple[str | int | bytes, ...]] = (),
        on_reply: Callable[[Any], None],
        on_up: Callable[[], None],
        on_down: Callable[[], None],
    ) -> None:
        self._endpoint = endpoint
        self._greeting = (*endpoint.login(), *greeting)
        self._on_reply, self._on_up, self._on_down = on_reply, on_up, on_down
        self._connection: _Connection | None = None
        self._task: asyncio.Task[None] | None = None
        self._tried: asyncio.Event = asyncio.Event()
        self.state = "closed"

    async def start(self) -> None:
        """Start connecting. Return after the first attempt, even if it failed."""
        self.state = "connecting"
        self._task = asyncio.get_running_loop().create_task(self._run())
        await self._tried.wait()

    async def close(self) -> None:
        """Close the connection and stop reconnecting."""
        self.state = "closed"
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
            self._task = None

    def write(self, data: bytes) -> None:
        """Send bytes. Call this only while ``state`` is "up"."""
        if self._connection is not None and self._connection.transport is not None:
            self._connection.transport.write(data)

    def drop(self) -> None:
        """Abort the current connection because it does not answer, and reconnect."""
        if self._connection is not None:
            self.state = "down"
            self._connection.abort()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        pause = FIRST_PAUSE
        while True:
            self.state = "connecting"
            began = loop.time()
            try:
                await self._hold()
            except (OSError, TimeoutError, StreamsError) as error:
                self._log_outage(pause, error)
            if loop.time() - began > STEADY:
                pause = FIRST_PAUSE
            self.state = "down"
            self._tried.set()
            self._on_down()
            # Randomized, so that processes do not reconnect at the same moment.
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311
            pause = min(pause * 2, LONGEST_PAUSE)

    def _log_outage(self, pause: float, error: Exception) -> None:
        if pause == FIRST_PAUSE:
            log.warning("Redis is unavailable: %s", str(error) or type(error).__name__)

    async def _hold(self) -> None:
        """Connect, log in, and return when the connection has ended."""
        connection = _Connection(len(self._greeting), self._on_reply)
        self._connection = connection
        try:
            async with asyncio.timeout(TIMEOUT):
                await self._open(connection)
                self.write(b"".join(map(pack, self._greeting)))
                await connection.greeted
            self.state = "up"
            self._tried.set()
            self._on_up()
            await connection.lost
        finally:
            self._connection = None
            connection.abort()
            connection.greeted.cancel()

    async def _open(self, connection: _Connection) -> None:
        loop, endpoint = asyncio.get_running_loop(), self._endpoint
        if endpoint.path:
            await loop.create_unix_connection(lambda: connection, endpoint.path)
        else:
            await loop.create_connection(
                lambda: connection,
                endpoint.host,
                endpoint.port,
                ssl=endpoint.tls,
            )
