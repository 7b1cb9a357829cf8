"""The subscriber connection of a process. It wakes local watchers and delivers broadcasts.

Publish/subscribe may lose messages when a connection is cut or Redis restarts. Therefore no code relies on
it alone. After a reconnection all waiters are woken to read again. In addition, a periodic sweep compares
the position of each watcher with the log.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import hiredis
import orjson
import redis

from mcp_app.streams.base import Callback, Position, StreamsError, StreamsUnavailable
from mcp_app.streams.connections.batch import Batch
from mcp_app.streams.connections.client import RedisAddress, sync_client
from mcp_app.streams.connections.keys import EVERYONE, Channels
from mcp_app.streams.connections.redis_connection import RedisConnection, fault, pack
from mcp_app.streams.wakers import Waker, Watchers

log = logging.getLogger(__name__)

RESYNC: dict[str, Any] = {"resync": True}
CHANNELS_PER_COMMAND = 500
SWEEP_CHUNK = 500
Heads = Callable[[list[tuple[str, str]]], Awaitable[list[Position | None]]]


class RedisHub:
    """An implementation of ``base.Hub`` with Redis publish/subscribe."""

    def __init__(self, url: str, batch: Batch, channels: Channels, heads: Heads, *, slow_poll: float) -> None:
        self._url, self._batch, self._channels, self._heads = url, batch, channels, heads
        self._slow_poll = slow_poll
        self._callbacks: dict[str, list[Callback]] = {}
        self._subscribed: set[str] = set()  # on the current connection
        # Sessions that have lost their last watcher since the last tick. Unsubscribing waits for the next
        # tick, because a busy session opens and closes a stream with every call.
        self._leaving: set[str] = set()
        self.watchers = Watchers(on_last=self._leaving.add)
        self._connection = RedisConnection(
            RedisAddress.parse(url),
            on_reply=self._reply,
            on_up=self._up,
            on_down=self._down,
        )
        self._missing: list[str] = []  # counted as subscribed, but not sent yet
        self._silent = False
        self._ticker: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop
        self._client: redis.Redis | None = None
        self._client_lock = threading.Lock()

    @property
    def is_up(self) -> bool:
        """True while connected."""
        return self._connection.state == "up"

    async def start(self) -> None:
        """Connect. Return after the first attempt, even if it failed."""
        self._loop = asyncio.get_running_loop()
        await self._connection.start()
        self._ticker = self._loop.create_task(self._tick())

    async def close(self) -> None:
        """Close the connections. Watchers are woken once more."""
        if self._ticker is not None:
            self._ticker.cancel()
            await asyncio.wait((self._ticker,))
        await self._connection.close()
        self.watchers.wake_all()
        with self._client_lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    def watch(self, session: str, name: str) -> Waker:
        self._want(self._channels.wake + session)
        return self.watchers.add(session, name)

    def subscribe(self, topic: str, callback: Callback) -> Callable[[], None]:
        callbacks = self._callbacks.setdefault(topic, [])
        callbacks.append(callback)
        self._want(self._channels.topic + topic)

        def stop() -> None:
            if callback in callbacks:
                callbacks.remove(callback)

        return stop

    async def publish(self, topic: str, payload: dict[str, Any]) -> None:
        await self._batch.command("PUBLISH", self._channels.topic + topic, orjson.dumps(payload))

    def publish_now(self, topic: str, payload: dict[str, Any]) -> None:
        with self._client_lock:
            client = self._client = self._client or sync_client(self._url)
        try:
            client.publish(self._channels.topic + topic, orjson.dumps(payload))
        except redis.RedisError as error:
            raise StreamsUnavailable(f"Redis is unavailable: {type(error).__name__}.") from error

    def _want(self, channel: str) -> None:
        """Subscribe to a channel, together with others of the same turn. ``_up`` renews all subscriptions."""
        if channel in self._subscribed or not self.is_up:
            return
        if not self._missing:
            self._loop.call_soon(self._subscribe_missing)
        self._missing.append(channel)
        self._subscribed.add(channel)

    def _subscribe_missing(self) -> None:
        missing, self._missing = self._missing, []
        if self.is_up:
            self._send_command("SUBSCRIBE", missing)

    def _send_command(self, command: str, channels: list[str]) -> None:
        for start in range(0, len(channels), CHANNELS_PER_COMMAND):
            self._connection.write(pack((command, *channels[start : start + CHANNELS_PER_COMMAND])))

    def _up(self) -> None:
        self._silent = False
        # Always subscribe to at least one channel: without a subscription, Redis answers a ping in another
        # format.
        wanted = {self._channels.topic + topic for topic in ("resync", *self._callbacks)}
        wanted.update(self._channels.wake + waiter.session for waiter in self.watchers)
        self._subscribed = wanted
        self._send_command("SUBSCRIBE", sorted(wanted))
        self._resync()

    def _resync(self) -> None:
        self.watchers.wake_all()
        for callbacks in self._callbacks.values():
            self._call(callbacks, dict(RESYNC))

    def _down(self) -> None:
        self._subscribed.clear()
        self._missing.clear()

    def _call(self, callbacks: list[Callback], payload: dict[str, Any]) -> None:
        # Schedule the callbacks, so that an exception in one of them affects neither the others nor this
        # connection.
        for callback in tuple(callbacks):
            self._loop.call_soon(callback, payload)

    def _reply(self, reply: Any) -> None:
        self._silent = False
        if isinstance(reply, hiredis.ReplyError):
            log.error("Redis refused the subscribing connection: %s", fault(reply))
            self._connection.drop()
            return
        kind, channel = reply[0], reply[1].decode()
        session, topic = channel.removeprefix(self._channels.wake), channel.removeprefix(self._channels.topic)
        if kind == b"message" and topic != channel:
            self._call(self._callbacks.get(topic, []), orjson.loads(reply[2]))
        elif kind == b"message" and (name := reply[2].decode()) != EVERYONE:
            self.watchers.wake(session, name)
        elif kind in (b"message", b"subscribe"):
            # Events that were appended before the subscription took effect did not wake the waiters. Wake
            # them now.
            self.watchers.wake_session(session)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(self._slow_poll)
            self._ping()
            self._unsubscribe_unused()
            await self._sweep()

    def _ping(self) -> None:
        """Replace the connection if nothing has arrived on it since the last ping."""
        if not self.is_up:
            return
        if self._silent:
            self._connection.drop()
        else:
            self._silent = True
            self._connection.write(pack(("PING",)))

    def _unsubscribe_unused(self) -> None:
        left = {self._channels.wake + each for each in self._leaving if not self.watchers.has(each)}
        self._leaving.clear()
        gone = sorted(left & self._subscribed)
        self._subscribed.difference_update(gone)
        if self.is_up:
            self._send_command("UNSUBSCRIBE", gone)

    async def _sweep(self) -> None:
        """Wake each watcher whose stream has newer events, because its wake-up was lost."""
        waiting = list(self.watchers)
        for start in range(0, len(waiting), SWEEP_CHUNK):
            chunk = [waiter for waiter in waiting[start : start + SWEEP_CHUNK] if waiter.epoch >= 0]
            try:
                heads = await self._heads([(waiter.session, waiter.name) for waiter in chunk])
            except StreamsError:
                return
            for waiter, head in zip(chunk, heads, strict=True):
                if waiter.behind(head):
                    waiter.wake()
