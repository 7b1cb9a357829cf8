"""Collection of the notifications that a test client receives."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress

import orjson

from mcp_app.handlers.context import CallerContext
from mcp_app.process import Process
from mcp_app.protocol.errors import ResourceNotFound
from mcp_app.protocol.features.subscriptions import METHOD as LISTEN
from mcp_app.protocol.features.subscriptions import RESOURCES
from mcp_app.protocol.messages import jsonrpc
from mcp_app.sessions.session import STANDALONE, LiveSession
from mcp_app.streams.base import CLOSE, StreamsError
from mcp_app.streams.reader import Reader
from mcp_app.testing.answers import Params, RequestError
from mcp_app.transports.subscriptions import Subscription, Subscriptions

POLL_SECONDS = 60.0


class Notifications:
    """A collector that appends notifications to ``notifications``. Use it on the event loop only."""

    def __init__(self, process: Process, notifications: list[tuple[str, Params]]) -> None:
        self._process = process
        self._notifications = notifications
        self._arrived = asyncio.Event()
        self._waited_for: Counter[str] = Counter()
        self._following: asyncio.Task[None] | None = None
        self._subscriptions: Subscriptions | None = None
        self._open: list[Subscription] = []

    def add(self, method: str, params: Params) -> None:
        """Record a notification."""
        self._notifications.append((method, params))
        self._arrived.set()

    async def next(self, method: str) -> Params:
        """Return the params of the first notification of this method that was not returned before.

        Wait until such a notification arrives.
        """
        while True:
            arrived = [params for name, params in self._notifications if name == method]
            if len(arrived) > self._waited_for[method]:
                self._waited_for[method] += 1
                return arrived[self._waited_for[method] - 1]
            self._arrived.clear()
            await self._arrived.wait()

    async def follow(self, session: LiveSession) -> None:
        """Collect messages sent to the session outside of requests, like a client with a GET stream."""
        streams = self._process.streams
        epoch, _ = await streams.log.open(session.id, STANDALONE)
        reader = streams.reader(session.id, STANDALONE, epoch, 0)
        self._following = asyncio.create_task(self._read(reader))

    async def subscribe(self, asked: CallerContext, uri: str) -> None:
        """Subscribe to a resource as in 2026-07-28. Raises RequestError for an unknown resource."""
        params = {"notifications": {RESOURCES: [uri]}}
        request = jsonrpc.Request(f"listen {uri}", LISTEN, params)
        subscriptions = self._subscriptions = self._subscriptions or Subscriptions(self._process)
        subscription, _ = await subscriptions.open(
            asked, request, b"", "", lambda: self._take(subscriptions, subscription)
        )
        self._open.append(subscription)
        if not subscription.keys:
            error = ResourceNotFound("Resource not found", data={"uri": uri})
            raise RequestError(error.to_wire())

    async def close(self) -> None:
        """End all subscriptions."""
        if self._subscriptions is not None:
            for subscription in self._open:
                self._subscriptions.close(subscription, "the test is over")
        if self._following is not None:
            self._following.cancel()
            with suppress(asyncio.CancelledError):
                await self._following

    async def _read(self, reader: Reader) -> None:
        try:
            while not reader.finished:
                for event in await reader.next(POLL_SECONDS):
                    if event.data and event.kind != CLOSE:
                        self._add(event.data)
        except StreamsError:
            return  # The session has ended.
        finally:
            reader.close()

    def _take(self, subscriptions: Subscriptions, subscription: Subscription) -> None:
        for message in subscriptions.take(subscription):
            self._add(message)

    def _add(self, encoded: bytes) -> None:
        message = orjson.loads(encoded)
        if "id" not in message:
            self.add(message["method"], message.get("params", {}))
