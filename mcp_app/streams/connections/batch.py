"""The connection of a process for commands to Redis. It is written once per turn of the event loop.

Awaiting the reply of each single command would take most of the time of a request. Instead, the commands of
all tasks in one turn are sent together, and so are all commands issued during one round trip.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import hiredis

from mcp_app.streams.base import StreamsUnavailable
from mcp_app.streams.connections.client import TIMEOUT, RedisAddress
from mcp_app.streams.connections.redis_connection import RedisConnection, fault, pack
from mcp_app.streams.connections.scripts import ALL, Script

Argument = str | int | bytes
Run = tuple[Script, Sequence[str], tuple[Argument, ...]]  # a script, its keys and its arguments
MOST_BYTES_WAITING = 64 * 1024 * 1024
CONFIRMATION = 0.02
PUBLISH_SECONDS = 0.5
# Delay of commands whose reply no task awaits. They then share a write with other commands, because a write
# costs more than a command.
COMPANY_SECONDS = 0.02

log = logging.getLogger(__name__)


class _Entry(NamedTuple):
    """One or more commands whose replies become the result of one future."""

    future: asyncio.Future[Any]
    deadline: float
    expected: int  # 0: a single command, whose reply itself is the result
    replies: list[Any]


class Batch:
    """Commands to Redis. They are answered in order, each within ``timeout`` seconds.

    Methods raise StreamsUnavailable (at once while Redis is known to be unreachable), StreamsFull, or
    StreamsError for a command that Redis refuses. Use the object only on the event loop on which it was
    started.
    """

    def __init__(self, endpoint: RedisAddress, *, timeout: float = TIMEOUT) -> None:
        self._timeout = timeout
        # The scripts are loaded on each new connection, so a script is rarely missing.
        self._connection = RedisConnection(
            endpoint,
            greeting=[("SCRIPT", "LOAD", script.source) for script in ALL],
            on_reply=self._reply,
            on_up=self._up,
            on_down=self._down,
        )
        self._waiting: deque[_Entry] = deque()
        self._sent: deque[_Entry] = deque()
        self._bytes: list[bytes] = []
        self._size = 0
        self._telling: set[asyncio.Future[Any]] = set()
        self._scheduled = False
        self._urgent = False  # a task awaits the reply to an unsent command
        self._leaving: asyncio.TimerHandle | None = None  # sends the commands whose reply no task awaits
        self._watchdog: asyncio.TimerHandle | None = None
        self._late = False
        self._loop: asyncio.AbstractEventLoop
        self.on_up: Callable[[], None] = lambda: None
        self.on_close: Callable[[], None] = lambda: None  # the last opportunity to send commands

    @property
    def is_up(self) -> bool:
        """True while connected."""
        return self._connection.state == "up"

    async def start(self) -> None:
        """Connect. Return after the first attempt, even if it failed."""
        self._loop = asyncio.get_running_loop()
        await self._connection.start()

    async def close(self) -> None:
        """Send the pending ``post`` scripts, fail all waiting commands, and close the connection."""
        self.on_close()
        if self._telling:
            self._leave()
            await asyncio.wait(self._telling, timeout=PUBLISH_SECONDS)
        await self._connection.close()
        self._down()
        if self._watchdog is not None:
            self._watchdog.cancel()

    def command(self, *arguments: Argument) -> asyncio.Future[Any]:
        """Send one command. The result is its reply (bytes, int, list or None)."""
        return self._put(pack(arguments), 0)

    def many(self, commands: Sequence[tuple[Argument, ...]]) -> asyncio.Future[list[Any]]:
        """Send several commands, not atomically.

        Return their replies, or raise the first error among them.
        """
        if not commands:
            empty: asyncio.Future[list[Any]] = self._loop.create_future()
            empty.set_result([])
            return empty
        return self._put(b"".join(map(pack, commands)), len(commands))

    async def script(self, script: Script, keys: Sequence[str], *arguments: Argument) -> Any:
        """Run a script. Send its source if Redis does not know the script."""
        try:
            return await self._put(pack(("EVALSHA", script.digest, len(keys), *keys, *arguments)), 0)
        except _ScriptMissing:
            return await self.command("EVAL", script.source, len(keys), *keys, *arguments)

    async def scripts(self, *wanted: Run, then: Sequence[tuple[Argument, ...]] = ()) -> list[Any]:
        """Run scripts and ``then`` commands in one round trip, not atomically. Return their replies.

        If Redis does not know one of the scripts, everything is sent again. Therefore all commands must be
        idempotent.
        """
        known = [("EVALSHA", script.digest, len(keys), *keys, *more) for script, keys, more in wanted]
        try:
            return await self.many([*known, *then])
        except _ScriptMissing:
            whole = [("EVAL", script.source, len(keys), *keys, *more) for script, keys, more in wanted]
            return await self.many([*whole, *then])

    def post(self, script: Script, keys: Sequence[str], *arguments: Argument) -> None:
        """Run a script before all later commands, without waiting for its reply. Never fails.

        The script is sent with the next command, or after ``COMPANY_SECONDS``.
        """

        def replied(reply: asyncio.Future[Any]) -> None:
            self._telling.discard(reply)
            error = None if reply.cancelled() else reply.exception()
            if isinstance(error, _ScriptMissing):
                self._post(self.command("EVAL", script.source, len(keys), *keys, *arguments), replied)
            elif error is not None:
                log.info("A command could not be sent to Redis: %s", error)

        packed = pack(("EVALSHA", script.digest, len(keys), *keys, *arguments))
        self._post(self._put(packed, 0, urgent=False), replied)

    def _post(self, reply: asyncio.Future[Any], replied: Callable[[asyncio.Future[Any]], None]) -> None:
        self._telling.add(reply)
        reply.add_done_callback(replied)

    def _put(self, packed: bytes, count: int, *, urgent: bool = True) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()
        state = self._connection.state
        if state in ("down", "closed"):
            future.set_exception(StreamsUnavailable("Redis is unavailable."))
            return future
        if self._size > MOST_BYTES_WAITING:
            future.set_exception(StreamsUnavailable("Too much is waiting for Redis."))
            return future
        now = self._loop.time()
        self._waiting.append(_Entry(future, now + self._timeout, count, []))
        self._bytes.append(packed)
        self._size += len(packed)
        if self._watchdog is None:
            self._watchdog = self._loop.call_at(now + self._timeout, self._check)
        self._urgent = self._urgent or urgent
        if not self._scheduled and not self._sent:
            self._schedule()
        return future

    def _schedule(self) -> None:
        if self._urgent:
            self._scheduled = True
            self._loop.call_soon(self._flush)
        elif self._leaving is None:
            self._leaving = self._loop.call_later(COMPANY_SECONDS, self._leave)

    def _leave(self) -> None:
        self._leaving = None
        self._flush()

    def _flush(self) -> None:
        self._scheduled = False
        if self._sent or not self._waiting or self._connection.state != "up":
            return
        self._urgent = False
        self._sent, self._waiting = self._waiting, self._sent
        self._connection.write(b"".join(self._bytes))
        self._bytes.clear()
        self._size = 0

    def _reply(self, reply: Any) -> None:
        if not self._sent:  # no command awaits this reply, so the order of replies is lost
            self._connection.drop()
            return
        entry = self._sent[0]
        if entry.expected:
            entry.replies.append(reply)
            if len(entry.replies) < entry.expected:
                return
            errors = (each for each in entry.replies if isinstance(each, hiredis.ReplyError))
            reply = next(errors, entry.replies)
        self._sent.popleft()
        if not entry.future.done():  # false if the waiting task was cancelled
            if isinstance(reply, hiredis.ReplyError):
                missing = str(reply).startswith("NOSCRIPT")
                entry.future.set_exception(_ScriptMissing() if missing else fault(reply))
            else:
                entry.future.set_result(reply)
        if not self._sent and self._waiting and not self._scheduled:
            # Scheduled after the tasks that these replies wake, so that the next commands of these tasks
            # are included.
            self._schedule()

    def _up(self) -> None:
        self._urgent = True
        self._schedule()
        self.on_up()

    def _down(self) -> None:
        entries = [*self._sent, *self._waiting]
        self._sent.clear()
        self._waiting.clear()
        self._bytes.clear()
        self._size = 0
        for entry in entries:
            if not entry.future.done():
                entry.future.set_exception(StreamsUnavailable("Redis went away before it answered."))

    def _check(self) -> None:
        """Drop the connection if the oldest command has exceeded its deadline."""
        head = self._sent[0] if self._sent else self._waiting[0] if self._waiting else None
        if head is None:
            self._watchdog, self._late = None, False
        elif self._loop.time() < head.deadline:
            self._late = False
            self._watchdog = self._loop.call_at(head.deadline, self._check)
        elif not self._late:
            # If the event loop was blocked, the reply may be unread in the socket. Let the loop read it
            # first.
            self._late = True
            self._watchdog = self._loop.call_later(CONFIRMATION, self._check)
        else:
            self._watchdog, self._late = None, False
            self._connection.drop()
            self._down()


class _ScriptMissing(StreamsUnavailable):
    """Redis does not know the script, because it was restarted or its scripts were flushed."""
