"""The MCP ASGI application of this process. It starts at startup or with the first request."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

from mcp_app import conf
from mcp_app.auth.identity_provider import provider as external
from mcp_app.process import Process
from mcp_app.streams.base import StreamsUnavailable
from mcp_app.streams.gateway import Streams
from mcp_app.transports.http_sse.endpoint import HttpSse
from mcp_app.transports.live_report import LiveReport
from mcp_app.transports.metrics_endpoint import MetricsEndpoint
from mcp_app.transports.streamable_http.answers import Send
from mcp_app.transports.streamable_http.endpoint import Endpoint
from mcp_app.transports.streamable_http.request_body import Receive
from mcp_app.transports.streamable_http.shortcut.quick_endpoint import QuickEndpoint


class Application:
    """The ASGI application of one process. A request may start it, as Daphne sends no lifespan events."""

    def __init__(self) -> None:
        self._endpoint: Endpoint | None = None
        self._http_sse: HttpSse | None = None
        self._metrics: MetricsEndpoint | None = None
        self._process: Process | None = None
        self._report: LiveReport | None = None
        self._starting: asyncio.Task[Endpoint] | None = None
        # True if the ASGI server sent a lifespan startup and therefore will send a shutdown.
        self.announced = False

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        endpoint = self._endpoint or await self._started()
        await endpoint(scope, receive, send)

    async def metrics(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request for the metrics of all processes."""
        if self._metrics is None:
            await self._started()
        if self._metrics is not None:
            await self._metrics(scope, receive, send)

    async def http_sse(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request of the transport of 2024-11-05."""
        if self._http_sse is None:
            await self._started()
        if self._http_sse is not None:
            await self._http_sse(scope, receive, send)

    @property
    def endpoint(self) -> Endpoint | None:
        """The endpoint once it has started, else None. A server may call it directly."""
        return self._endpoint

    async def start(self) -> None:
        """Connect and load before the first request."""
        await self._started()

    async def streams(self) -> Streams:
        """Return this process's event streams, for viewers of the console. Starts the service."""
        await self._started()
        if self._process is None:
            raise StreamsUnavailable("The service is stopping.")
        return self._process.streams

    def drain(self) -> None:
        """Close the event streams so that clients resume at another process (R20). Idempotent."""
        if self._endpoint is not None:
            self._endpoint.connections.drain()

    def leave(self) -> None:
        """Close resumable event streams, as another process takes over. Pending answers are still sent."""
        if self._endpoint is not None:
            self._endpoint.connections.leave()

    @property
    def running(self) -> int:
        """The number of calls that run in this process, plus other calls that this process has to answer."""
        if self._process is None or self._endpoint is None:
            return 0
        return self._process.calls.running + self._endpoint.connections.answering

    async def healthy(self) -> bool:
        """Return True if the connections to Redis work, or if the application has not started."""
        return self._process is None or await self._process.streams.healthy()

    async def close(self) -> None:
        """Finish running calls, flush buffers and disconnect."""
        self.drain()
        process, self._process, self._endpoint = self._process, None, None
        self._starting = self._metrics = self._http_sse = None
        report, self._report = self._report, None
        if report is not None:
            await report.close()
        if process is not None:
            await process.close()

    async def _started(self) -> Endpoint:
        if self._starting is None or (self._starting.done() and self._starting.exception() is not None):
            self._starting = asyncio.create_task(self._build())
        return await asyncio.shield(self._starting)

    async def _build(self) -> Endpoint:
        settings = conf.get()
        # Without Redis (as with a bare `runserver`) there is only this process, and its streams end with it.
        url = settings.redis_url
        streams = Streams.connect(url, settings) if url else Streams.in_memory(settings)
        process = Process(streams, settings)
        external.prepare()
        await process.start()
        self._process = process
        self._endpoint = QuickEndpoint(process)
        self._http_sse = HttpSse(process, self._endpoint)
        self._metrics = MetricsEndpoint(process)
        self._report = LiveReport(process, self._endpoint.connections)
        self._report.start()
        return self._endpoint


mcp = Application()
