"""The /metrics application. It admits requests like /mcp, requires one permission, and sends the metrics."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import MutableMapping
from typing import Any

from mcp_app.auth.challenges import insufficient
from mcp_app.auth.own_addresses import metadata_url
from mcp_app.auth.principal import LOOPBACK
from mcp_app.execution.stored import queue_stats
from mcp_app.metrics import families, readings
from mcp_app.process import Process
from mcp_app.protocol.errors import Forbidden, McpError, MethodNotAllowed, Refused
from mcp_app.protocol.http.headers import collect
from mcp_app.protocol.http.transport_security import HostPolicy
from mcp_app.protocol.scopes import ADMIN
from mcp_app.transports.streamable_http.answers import Send, send_error
from mcp_app.transports.streamable_http.endpoint import is_local

PERMISSION = "mcp_app.view_metrics"
OFF = "The metrics are switched off (METRICS)."
NOT_ALLOWED = f"The user of this API key needs the permission {PERMISSION}."


class MetricsEndpoint:
    """An ASGI callable that serves the metrics. Concurrent requests share one reading."""

    def __init__(self, process: Process) -> None:
        settings = process.settings
        self._process = process
        self._policy = HostPolicy(
            settings.allowed_hosts, settings.allowed_origins, loopback=settings.loopback
        )
        self._reading: asyncio.Task[readings.Readings] | None = None

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Send) -> None:
        """Answer one request. Errors have the same form as the errors of /mcp."""
        try:
            await self._admit(scope)
            body = families.exposition(await self._read(), self._process.views.server.version)
        except McpError as error:
            await send_error(send, error)
            return
        headers = [
            (b"content-type", families.CONTENT_TYPE),
            (b"content-length", b"%d" % len(body)),
            (b"cache-control", b"no-store"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _admit(self, scope: MutableMapping[str, Any]) -> None:
        """Raise Refused or one of its subclasses unless the request may read metrics."""
        fields = collect(scope["headers"])
        self._policy.check(fields.get(b"host"), fields.get(b"origin"))
        if not self._process.settings.metrics:
            raise Refused(OFF, http_status=404)
        address = scope["client"][0] if scope.get("client") else ""
        authorization = fields.get(b"authorization")
        local = authorization is None and is_local(fields, address)
        authenticator = self._process.authenticator
        metadata = metadata_url(fields.get(b"host", b"").decode("latin-1"), scope["path"])
        principal = await authenticator.authenticate(
            authorization, local=local, address=address, metadata=metadata
        )
        if principal.scopes is not None and ADMIN not in principal.scopes:
            raise insufficient(principal, ADMIN, metadata)
        if principal.bench or (principal is not LOOPBACK and PERMISSION not in principal.permissions):
            raise Forbidden(NOT_ALLOWED)
        if scope["method"] not in ("GET", "HEAD"):
            raise MethodNotAllowed(allow="GET, HEAD")

    async def _read(self) -> readings.Readings:
        if self._reading is None or self._reading.done():
            process = self._process
            looking = readings.read(process.streams, process.metrics, process.settings.redis_url, _open_calls)
            self._reading = asyncio.create_task(looking)
        return await asyncio.shield(self._reading)


def _open_calls() -> tuple[Counter[tuple[str, str]], list[str]]:
    states = queue_stats.open_calls()
    return states, queue_stats.queue_names(states)
