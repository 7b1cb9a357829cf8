"""Requests to other servers: calls of tools with progress and logs, and lists."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from mcp_app.protocol.client import outgoing
from mcp_app.protocol.client.answers import Answered, Asked, Event, InputRequired
from mcp_app.protocol.client.faults import Kind, UpstreamFault
from mcp_app.protocol.client.outgoing import Headers, Outgoing, Peer
from mcp_app.protocol.client.pages import MAX_BYTES, Pages
from mcp_app.protocol.errors import UnsupportedVersion
from mcp_app.protocol.messages import jsonrpc
from mcp_app.upstreams import connection, health, sessions
from mcp_app.upstreams.breaker import Breaker
from mcp_app.upstreams.connection import OnEvent
from mcp_app.upstreams.server import UpstreamServer

LIST_SECONDS: Final = 30.0
SIDE_SECONDS: Final = 5.0
MAX_ASKED: Final = 20
# Counts the servers that a call passed, so that servers behind each other cannot form a loop (INT-78).
HOPS: Final = "django-mcp/hops"
MAX_HOPS: Final = 5

Build = Callable[[Peer], Outgoing]

log = logging.getLogger("mcp.upstream")
_breakers: dict[int, Breaker] = {}
_side: set[asyncio.Task[None]] = set()


@dataclass(frozen=True, slots=True)
class Listing:
    """The handshake with a server and the definitions of its tools, as the server sent them."""

    peer: Peer
    tools: list[dict[str, Any]] = field(default_factory=list)


def hops_of(meta: Mapping[str, Any]) -> int:
    """Return the number of servers that a call passed before this one, by its ``_meta``."""
    found = meta.get(HOPS)
    return found if type(found) is int and found > 0 else 0


async def call_tool(
    server: UpstreamServer,
    key: str,
    name: str,
    arguments: Mapping[str, Any],
    *,
    hops: int,
    seconds: float,
    headers: Headers = (),
    on_event: OnEvent | None = None,
) -> dict[str, Any]:
    """Call a tool in the session of ``key``, and return its result. Raise UpstreamFault.

    ``headers`` are arguments that a modern server wants as headers as well. ``on_event`` is awaited for each
    message before the result. Cancelling the task cancels the request at the server.
    """
    if hops >= MAX_HOPS:
        text = f"is not called, because this call has passed {MAX_HOPS} servers already: they form a loop."
        raise UpstreamFault(Kind.REFUSED, text, sent=False)
    params = {"name": name, "arguments": dict(arguments)}
    meta = {HOPS: hops + 1}

    def build(peer: Peer) -> Outgoing:
        repeated = headers if peer.is_modern else ()
        return outgoing.request(
            peer, sessions.identity(), sessions.next_id(), "tools/call", params,
            progress=True, log_level="info", meta=meta, headers=repeated,
        )  # fmt: skip

    return await _asked(server, key, build, seconds, on_event)


async def listing(server: UpstreamServer) -> Listing:
    """Return the server's handshake and tools, from a session that ends afterwards. Raise UpstreamFault."""
    key = f"list:{sessions.next_id()}"
    try:
        async with asyncio.timeout(LIST_SECONDS) as limit:
            return await _listing(server, key)
    except TimeoutError:
        if not limit.expired():
            raise
        text = f"did not list its tools within {LIST_SECONDS:g} seconds."
        raise UpstreamFault(Kind.TIMEOUT, text) from None
    finally:
        await sessions.end(server, key)


async def _listing(server: UpstreamServer, key: str) -> Listing:
    peer = await sessions.opened(server, key)
    pages, params, size = Pages("tools"), dict[str, Any](), 0
    if "tools" not in peer.capabilities:
        return Listing(peer)
    while True:
        result = await _asked(server, key, partial(_page, params), LIST_SECONDS, None)
        size += len(jsonrpc.encode(result))
        if size > MAX_BYTES:
            raise UpstreamFault(Kind.TOO_LARGE, f"lists more than {MAX_BYTES // 1024} KiB of tools.")
        cursor = pages.take(result)
        if cursor is None:
            return Listing(await sessions.opened(server, key), pages.items)
        params = {"cursor": cursor}


def _page(params: dict[str, Any], peer: Peer) -> Outgoing:
    return outgoing.request(peer, sessions.identity(), sessions.next_id(), "tools/list", params)


async def _asked(
    server: UpstreamServer, key: str, build: Build, seconds: float, on_event: OnEvent | None
) -> dict[str, Any]:
    breaker = _breakers.setdefault(server.pk, Breaker())
    breaker.admit()
    outcome: UpstreamFault | None = None
    try:
        result = await _in_session(server, key, build, seconds, on_event)
    except UpstreamFault as fault:
        outcome = fault
        raise
    finally:
        # Also after a cancellation, which says nothing about the server.
        breaker.release()
        if outcome is not None:
            breaker.record(outcome)
            health.report(server, outcome)
    breaker.record(None)
    health.report(server, None)
    return result


async def _in_session(
    server: UpstreamServer, key: str, build: Build, seconds: float, on_event: OnEvent | None
) -> dict[str, Any]:
    """Send a request. A session that has ended is opened once more, as nothing was processed in it."""
    peer = await sessions.opened(server, key)
    try:
        return await _exchange(server, peer, build(peer), seconds, on_event)
    except UpstreamFault as fault:
        if fault.kind != Kind.EXPIRED and not (peer.is_modern and fault.code == UnsupportedVersion.code):
            raise
        log.info("The server %s ended a session: it is opened again.", server.name)
    await sessions.forget(server, key, peer)
    peer = await sessions.opened(server, key)
    return await _exchange(server, peer, build(peer), seconds, on_event)


async def _exchange(
    server: UpstreamServer, peer: Peer, sent: Outgoing, seconds: float, on_event: OnEvent | None
) -> dict[str, Any]:
    asked = 0

    async def handle(event: Event) -> None:
        nonlocal asked
        if not isinstance(event, Asked):
            if on_event is not None:
                await on_event(event)
            return
        asked += 1
        if asked > MAX_ASKED:
            raise UpstreamFault(Kind.INVALID, f"asked more than {MAX_ASKED} questions during one request.")
        answer = outgoing.declined(peer, event.id, event.method)
        if event.method == "ping":
            answer = outgoing.answered(peer, event.id, {})
        await connection.post(server, answer, seconds=SIDE_SECONDS)

    try:
        reply = await connection.post(server, sent, on_event=handle, seconds=seconds)
    except asyncio.CancelledError:
        # A modern server notices that the stream is closed.
        if not peer.is_modern and sent.id is not None:
            _later(_cancel(server, peer, sent.id))
        raise
    if isinstance(reply.event, InputRequired):
        raise UpstreamFault(Kind.QUESTION, "asks the user a question, which cannot be relayed.")
    if not isinstance(reply.event, Answered):
        raise UpstreamFault(Kind.INVALID, "did not answer with a result.")
    return reply.event.result


async def _cancel(server: UpstreamServer, peer: Peer, number: Any) -> None:
    try:
        await connection.post(server, outgoing.cancelled(peer, number), seconds=SIDE_SECONDS)
    except UpstreamFault as fault:
        log.info("The server %s %s", server.name, fault)


def _later(work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.get_running_loop().create_task(work)
    _side.add(task)
    task.add_done_callback(_side.discard)
