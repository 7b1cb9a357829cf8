"""Requests to other servers, within their sessions and their availability, and lists of what they offer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

from mcp_app.metrics import tally
from mcp_app.observability.correlation import principal
from mcp_app.protocol.client import outgoing
from mcp_app.protocol.client.answers import Answered, InputRequired
from mcp_app.protocol.client.faults import Kind, UpstreamFault
from mcp_app.protocol.client.outgoing import Headers, Peer
from mcp_app.protocol.client.pages import MAX_BYTES, Pages
from mcp_app.protocol.errors import MethodNotFound, UnsupportedVersion
from mcp_app.protocol.messages import jsonrpc
from mcp_app.protocol.principal_key import person_of
from mcp_app.upstreams import health, sessions
from mcp_app.upstreams.breaker import Breaker
from mcp_app.upstreams.caller import Caller
from mcp_app.upstreams.connection import OnEvent
from mcp_app.upstreams.exchanges import Exchange, OnQuestion
from mcp_app.upstreams.server import UpstreamServer

LIST_SECONDS: Final = 30.0
# Counts the servers that a call passed, so that servers behind each other cannot form a loop (INT-78).
HOPS: Final = "django-mcp/hops"
MAX_HOPS: Final = 5
TEMPLATES: Final = "resources/templates/list"

Result = Answered | InputRequired
T = TypeVar("T")
# Returns the params of a request to a server, and further capabilities to declare.
Adapt = Callable[[Peer], tuple[Mapping[str, Any], Mapping[str, Any]]]

log = logging.getLogger("mcp.upstream")
_breakers: dict[int, Breaker] = {}


@dataclass(frozen=True, slots=True)
class Listing:
    """The handshake with a server, and the items of each list that it has, by the member of the list."""

    peer: Peer
    items: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


def hops_of(meta: Mapping[str, Any]) -> int:
    """Return the number of servers that a call passed before this one, by its ``_meta``."""
    found = meta.get(HOPS)
    return found if type(found) is int and found > 0 else 0


async def requested(
    server: UpstreamServer,
    caller: Caller,
    method: str,
    params: Mapping[str, Any],
    *,
    hops: int,
    seconds: float,
    headers: Headers = (),
    on_event: OnEvent | None = None,
    on_question: OnQuestion | None = None,
    adapt: Adapt | None = None,
) -> Result:
    """Send a request in the session of the caller, and return its result. Raise UpstreamFault.

    ``headers`` are arguments that a modern server wants as headers as well. ``on_event`` is awaited for each
    message before the result. ``on_question`` takes questions of a legacy server. ``adapt`` changes the
    params for the server's revision. Cancelling the task cancels the request at the server.
    """
    if hops >= MAX_HOPS:
        text = f"is not called, because this call has passed {MAX_HOPS} servers already: they form a loop."
        raise UpstreamFault(Kind.REFUSED, text, sent=False)

    async def send(peer: Peer) -> Result:
        told, more = (params, {}) if adapt is None else adapt(peer)
        who, repeated = sessions.identity(caller, more), headers if peer.is_modern else ()
        sent = outgoing.request(
            peer, who, sessions.next_id(), method, told,
            progress=True, log_level="info", meta={HOPS: hops + 1}, headers=repeated,
        )  # fmt: skip
        return await Exchange(server, peer, seconds, on_event, on_question).run(sent)

    return await _guarded(server, partial(_in_session, server, caller, send))


async def completion(
    server: UpstreamServer, caller: Caller, params: Mapping[str, Any], seconds: float
) -> dict[str, Any]:
    """Return the completion of an argument. Raise UpstreamFault, also if the server completes nothing."""
    if "completions" not in (await opened(server, caller)).capabilities:
        raise UpstreamFault(Kind.UNSUPPORTED, "does not complete arguments.", sent=False)
    answer = await requested(server, caller, "completion/complete", params, hops=0, seconds=seconds)
    if not isinstance(answer, Answered):
        raise UpstreamFault(Kind.QUESTION, "asks a question before it completes an argument.")
    return answer.result


async def listing(
    server: UpstreamServer,
    lists: Collection[tuple[str, str, str]],
    capabilities: Mapping[str, Any] | None = None,
) -> Listing:
    """Return the server's handshake and items, from a session that ends afterwards. Raise UpstreamFault.

    ``capabilities`` are declared, because servers may offer tools that ask to such clients only. Each list
    has a capability of the server, a method, and the member with its items. Lists that the server does not
    have are left out.
    """
    caller = Caller(f"list:{sessions.next_id()}", capabilities or {})
    try:
        async with asyncio.timeout(LIST_SECONDS + server.start_seconds) as limit:
            return await _listing(server, caller, lists)
    except TimeoutError:
        if not limit.expired():
            raise
        text = f"did not list what it offers within {LIST_SECONDS:g} seconds."
        fault = UpstreamFault(Kind.TIMEOUT, text)
        health.report(server, fault)
        raise fault from None
    except UpstreamFault as fault:
        # Lists may be refused after a request that succeeded.
        if _concerns_server(server, fault):
            health.report(server, fault)
        raise
    finally:
        await sessions.end(server, caller)


async def _listing(
    server: UpstreamServer, caller: Caller, lists: Collection[tuple[str, str, str]]
) -> Listing:
    peer = await _guarded(server, partial(sessions.renewed, server, caller))
    items, size = dict[str, list[dict[str, Any]]](), 0
    for capability, method, member in lists:
        if capability not in peer.capabilities:
            continue
        pages, params = Pages(member), dict[str, Any]()
        cursor: str | None = ""
        while cursor is not None:
            try:
                answer = await requested(server, caller, method, params, hops=0, seconds=LIST_SECONDS)
            except UpstreamFault as fault:
                # Servers with resources often know no templates, which have no capability.
                if fault.code == MethodNotFound.code and method == TEMPLATES:
                    break
                raise
            if not isinstance(answer, Answered):
                raise UpstreamFault(Kind.QUESTION, f"asks a question before it lists its {member}.")
            size += len(jsonrpc.encode(answer.result))
            if size > MAX_BYTES:
                raise UpstreamFault(Kind.TOO_LARGE, f"lists more than {MAX_BYTES // 1024} KiB.")
            cursor = pages.take(answer.result)
            params = {"cursor": cursor}
        items[member] = pages.items
    return Listing(peer, items)


async def opened(server: UpstreamServer, caller: Caller) -> Peer:
    """Return the server after its handshake. A handshake that fails is an outcome like any other.

    Raise UpstreamFault.
    """
    return await _guarded(server, partial(sessions.opened, server, caller))


def _concerns_server(server: UpstreamServer, fault: UpstreamFault) -> bool:
    """Return False for the refused account of a user, which is not an outcome of the server."""
    return fault.kind != Kind.LOGIN or server.account is None


async def _guarded(server: UpstreamServer, send: Callable[[], Awaitable[T]]) -> T:
    """Send a request unless the server counts as unavailable, and record its outcome."""
    breaker = _breakers.setdefault(server.pk, Breaker())
    is_open_attempt = breaker.admit()
    try:
        result = await send()
    except UpstreamFault as fault:
        if _concerns_server(server, fault):
            is_open_attempt = False
            breaker.record(fault, person=person_of(principal()))
            health.report(server, fault)
        tally.note("upstream_fault", f"{server.name} {fault.kind.value}")
        raise
    else:
        is_open_attempt = False
        breaker.record(None)
        health.report(server, None)
        return result
    finally:
        # A cancellation says nothing about the server.
        if is_open_attempt:
            breaker.release()


async def _in_session(
    server: UpstreamServer, caller: Caller, send: Callable[[Peer], Awaitable[Result]]
) -> Result:
    """Send a request. A session that has ended is opened once more, as nothing was processed in it."""
    peer = await sessions.opened(server, caller)
    try:
        return await send(peer)
    except UpstreamFault as fault:
        if fault.kind != Kind.EXPIRED and not (peer.is_modern and fault.code == UnsupportedVersion.code):
            raise
        log.info("The server %s ended a session: it is opened again.", server.name)
    await sessions.forget(server, caller, peer)
    return await send(await sessions.opened(server, caller))
