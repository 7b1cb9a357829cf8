"""A process on in-memory streams with one session: send it a message, get its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import orjson

from mcp_app.auth.principal import LOOPBACK, Principal
from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.catalogue.snapshots.snapshot import KINDS, Catalogue
from mcp_app.conf import Settings
from mcp_app.execution.calls.reply import Answered, StreamReference
from mcp_app.handlers.context import CallerContext
from mcp_app.models import Call
from mcp_app.process import Process
from mcp_app.protocol.messages import jsonrpc
from mcp_app.sessions.negotiated import Negotiated
from mcp_app.sessions.session import LiveSession, stored_fields
from mcp_app.streams.gateway import Streams

SETTINGS = Settings(message_log=False)
CLIENT = {"name": "tests", "version": "1"}


def offer(**kinds: Iterable[Any]) -> None:
    """Put a catalogue in use."""
    current_snapshot.replace(Catalogue(revision=1, revisions=dict.fromkeys(KINDS, 1), **kinds))  # type: ignore[arg-type]


async def move_to_another_server(call_id: str) -> None:
    """Let a stored call have come by the server at ``/mcp/toy``."""
    call = await Call.objects.aget(pk=call_id)
    fields = {**call.session_fields, "path": "/mcp/toy"}
    await Call.objects.filter(pk=call_id).aupdate(session_fields=fields)


class Desk:
    """A process with one client."""

    def __init__(self, streams: Streams, **settings: Any) -> None:
        self.streams = streams
        self.process = Process(streams, replace(SETTINGS, **settings))
        self.process.sessions.start()
        self.principal: Principal = LOOPBACK
        self.session: LiveSession

    async def open(self, version: str = "2025-11-25") -> LiveSession:
        """Open the session for all later requests."""
        self.session = await self.process.sessions.create(
            stored_fields(
                version=version,
                principal_key=self.principal.key,
                client_info=CLIENT,
                capabilities={},
                announced=1,
            )
        )
        return self.session

    def asked(self, session: Negotiated | None = None, principal: Principal | None = None) -> CallerContext:
        """Return the start of a request, with the catalogue in use now."""
        principal = principal or self.principal
        catalogue = self.process.views.of(principal.permissions)
        return CallerContext(self.process, session or self.session, principal, catalogue)

    async def request(self, method: str, params: dict[str, Any] | None = None, request_id: Any = 1) -> Any:
        """Return the answer to one request."""
        message = jsonrpc.Request(request_id, method, params or {})
        async with asyncio.timeout(10):
            outcome = await self.process.dispatcher.request(self.asked(), message, b"{}")
            self.status = outcome.status if isinstance(outcome, Answered) else 200
            return (await self._messages(outcome))[-1]

    async def batch(self, *members: Any) -> list[Any]:
        """Return the messages that answer a batch."""
        async with asyncio.timeout(10):
            outcome = await self.process.dispatcher.batch(self.asked(), list(members))
            return await self._messages(outcome)

    async def initialize(self, params: dict[str, Any]) -> Any:
        """Return the answer to ``initialize``."""
        outcome = await self.process.dispatcher.initialize(
            self.principal,
            self.process.views.of(self.principal.permissions),
            jsonrpc.Request(1, "initialize", params),
            b"{}",
            "127.0.0.1",
        )
        self.status, self.opened = outcome.status, outcome.session_id
        return orjson.loads(outcome.body)

    async def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Send a notification."""
        await self.process.dispatcher.notification(
            self.session, jsonrpc.Notification(method, params or {}), b"{}"
        )

    async def _messages(self, outcome: Answered | StreamReference) -> list[Any]:
        if isinstance(outcome, Answered):
            found = orjson.loads(outcome.body) if outcome.body else []
            return found if isinstance(found, list) else [found]
        reader = self.streams.reader(self.session.id, outcome.stream, outcome.epoch, outcome.after)
        messages: list[Any] = []
        while not reader.finished:
            messages += [orjson.loads(event.data) for event in await reader.next(1)]
        reader.close()
        return messages
