"""Handshakes and sessions with other servers, shared by all processes through Redis.

A session belongs to one server and one caller, such as a client's session. Every process uses the same
session for the same caller. A server without sessions, as in the modern era, has one handshake for all
callers.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import count
from typing import Any, Final
from weakref import WeakKeyDictionary

import orjson

from mcp_app import conf
from mcp_app.protocol.client import handshake, outgoing
from mcp_app.protocol.client.answers import Answered
from mcp_app.protocol.client.faults import Kind, UpstreamFault
from mcp_app.protocol.client.outgoing import SESSION_HEADER, Identity, Outgoing, Peer
from mcp_app.protocol.versions import V2025_11_25
from mcp_app.streams.blocking import shared_values
from mcp_app.upstreams import bridge, connection, http_sse
from mcp_app.upstreams.caller import Caller
from mcp_app.upstreams.server import UpstreamServer

HANDSHAKE_SECONDS: Final = 20.0
# A session that no process used for this time is ended.
IDLE_SECONDS: Final = 600.0
MODERN_SECONDS: Final = 86_400.0
# A server of the legacy era is asked for the modern era again after this time.
ERA_SECONDS: Final = 86_400.0
# After this time, if it was silent, as a modern server is that starts slowly.
SILENT_SECONDS: Final = 600.0
_RENEW_SECONDS: Final = 60.0
_END_SECONDS: Final = 5.0
_MAX_KEPT: Final = 10_000

# The process in front of each id keeps ids unique in a session that several processes use.
_process = (0, "")
_numbers = count(1)


@dataclass(slots=True)
class _Kept:
    # As its last caller used it: the token of an earlier caller may have expired.
    server: UpstreamServer
    caller: Caller
    peer: Peer
    # The session counts as ended after this time without a use.
    seconds: float
    used_at: float
    stored_at: float


_kept: dict[str, _Kept] = {}
_legacy_until: dict[str, float] = {}
_opening: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, asyncio.Task[Peer]]] = WeakKeyDictionary()
_ending: set[asyncio.Task[None]] = set()


def next_id() -> str:
    """Return an id that no other process uses."""
    global _process  # noqa: PLW0603 - once for each process, also after a fork
    if _process[0] != os.getpid():
        _process = os.getpid(), os.urandom(6).hex()
    return f"{_process[1]}-{next(_numbers)}"


def identity(caller: Caller, more: Mapping[str, Any] | None = None) -> Identity:
    """Return the client that other servers see, with the capabilities of the caller and ``more``."""
    server = conf.get().server
    declared = {**caller.capabilities, **more} if more else caller.capabilities
    return Identity({"name": server.name, "version": server.version}, declared)


async def opened(server: UpstreamServer, caller: Caller) -> Peer:
    """Return the server after its handshake, in the session of the caller. Raise UpstreamFault."""
    name = _modern(server)
    now, found = time.monotonic(), _kept.get(name)
    if found is None or now - found.used_at >= found.seconds:
        name = _legacy(server, caller)
        found = _kept.get(name)
    if found is not None and now - found.used_at < found.seconds:
        found.server, found.used_at = server, now
        if now - found.stored_at > _RENEW_SECONDS and not found.peer.is_modern:
            # Redis is told long before the session counts as idle.
            found.stored_at = now
            await asyncio.to_thread(_write, name, found.peer)
        return found.peer
    tasks = _opening.setdefault(asyncio.get_running_loop(), {})
    name = _legacy(server, caller)
    task = tasks.get(name)
    if task is None:
        task = tasks[name] = asyncio.create_task(_open(server, caller))
        task.add_done_callback(partial(_opened, tasks, name))
    # The handshake is shared, so the end of one caller does not end it.
    return await asyncio.shield(task)


async def renewed(server: UpstreamServer, caller: Caller) -> Peer:
    """Return the server after a new handshake, which replaces the one of the caller. Raise UpstreamFault.

    A modern server may have other capabilities than at the last handshake. Redis has neither its title nor
    its instructions.
    """
    peer = await _handshake(server, identity(caller))
    await _share(server, caller, peer)
    return peer


def is_modern(server: UpstreamServer) -> bool:
    """Return True if this process knows the handshake of a server of the modern era."""
    return _modern(server) in _kept


async def end(server: UpstreamServer, caller: Caller) -> None:
    """End the session of a caller, if there is one."""
    name = _legacy(server, caller)
    found = _kept.pop(name, None)
    if found is not None:
        await asyncio.to_thread(shared_values.drop, name)
        await _delete(server, found.peer)


def client_ended(session_id: str) -> None:
    """End the sessions that this process has for a client's session. Called on an event loop."""
    key = Caller.key_of(session_id)
    for kept in [kept for kept in _kept.values() if kept.caller.key == key and kept.peer.session]:
        _in_background(end(kept.server, kept.caller))


async def forget(server: UpstreamServer, caller: Caller, peer: Peer) -> None:
    """Drop a handshake that the server no longer accepts, unless another process has replaced it."""
    name = _modern(server) if peer.is_modern else _legacy(server, caller)
    if (found := _kept.get(name)) is not None and found.peer == peer:
        del _kept[name]
    if await asyncio.to_thread(_is_shared, name, peer):
        await asyncio.to_thread(shared_values.drop, name)


def _opened(tasks: dict[str, asyncio.Task[Peer]], name: str, task: asyncio.Task[Peer]) -> None:
    tasks.pop(name, None)
    if not task.cancelled():
        task.exception()  # It is raised to those who wait, and they may all have been cancelled.


async def _open(server: UpstreamServer, caller: Caller) -> Peer:
    seconds = HANDSHAKE_SECONDS + server.start_seconds
    until = time.monotonic() + seconds
    names = (_modern(server), _legacy(server, caller))
    lock, holder = f"upstream-open/{names[1]}", os.urandom(8).hex()
    while True:
        for name in names:
            if (peer := await asyncio.to_thread(_read, name)) is not None:
                _keep(server, caller, name, peer)
                return peer
        if await asyncio.to_thread(shared_values.acquire, lock, holder, seconds):
            break
        if time.monotonic() > until:
            raise UpstreamFault(Kind.TIMEOUT, "did not open a session in time.", sent=False)
        await asyncio.sleep(0.05)
    try:
        peer = await _handshake(server, identity(caller))
        await _share(server, caller, peer)
        return peer
    finally:
        await asyncio.to_thread(shared_values.release, lock, holder)


async def _share(server: UpstreamServer, caller: Caller, peer: Peer) -> None:
    """Store a new handshake for this process and the others."""
    name = _modern(server) if peer.is_modern else _legacy(server, caller)
    _keep(server, caller, name, peer)
    await asyncio.to_thread(_write, name, peer)


async def _handshake(server: UpstreamServer, who: Identity) -> Peer:
    is_probed = server.era == "modern" or (server.era == "auto" and not await _is_known_as_legacy(server))
    legacy_seconds = ERA_SECONDS
    if is_probed:
        try:
            reply = await _post(server, outgoing.discover(who, next_id()))
            peer = handshake.discovered(_result(reply))
            if peer is not None:
                return peer
        except UpstreamFault as fault:
            legacy_seconds = _legacy_seconds(server, fault)
            if server.era == "modern":
                raise
        if server.era == "modern":
            raise UpstreamFault(Kind.UNSUPPORTED, "offers older protocol revisions only.")
    sent = outgoing.initialize(who, next_id(), V2025_11_25)
    try:
        reply = await _initialized(server, sent)
    except UpstreamFault:
        # The server may have left the legacy era, so the next handshake asks again.
        _legacy_until.pop(server.key, None)
        await asyncio.to_thread(shared_values.drop, _era(server))
        raise
    peer = handshake.initialized(_result(reply), reply.session)
    try:
        await _post(server, outgoing.initialized(peer))
    except UpstreamFault:
        # Otherwise the server would keep a session that no caller uses.
        await _delete(server, peer)
        raise
    if is_probed:
        _legacy_until[server.key] = time.monotonic() + legacy_seconds
        await asyncio.to_thread(shared_values.put, _era(server), b"legacy", legacy_seconds)
    return peer


def _legacy_seconds(server: UpstreamServer, fault: UpstreamFault) -> float:
    """Return how long a server that refused the first request counts as one of the legacy era.

    Raise UpstreamFault if the refusal does not come from a server of the legacy era.
    """
    if server.command and fault.status == bridge.SILENT:
        return SILENT_SECONDS
    if not handshake.is_legacy(fault):
        raise fault
    return ERA_SECONDS


async def _initialized(server: UpstreamServer, sent: Outgoing) -> connection.Reply:
    """Return the answer to ``initialize``. A server that knows no POST gets it over HTTP+SSE."""
    try:
        return await _post(server, sent)
    except UpstreamFault as fault:
        if fault.status not in http_sse.OLDER or server.command:
            raise
        refused = fault
    try:
        session = await http_sse.opened(server, _seconds(server))
    except UpstreamFault as fault:
        raise refused if fault.kind is Kind.NOT_MCP else fault from None
    is_open = False
    try:
        named = replace(sent, headers=(*sent.headers, (SESSION_HEADER, session.id)))
        reply = await _post(server, named)
        is_open = True
        return reply
    finally:
        if not is_open:
            session.close()


async def _is_known_as_legacy(server: UpstreamServer) -> bool:
    """Return True if a process has taken a server for one of the legacy era, and need not ask again yet."""
    if _legacy_until.get(server.key, 0.0) > time.monotonic():
        return True
    return await asyncio.to_thread(shared_values.get, _era(server)) is not None


def _era(server: UpstreamServer) -> str:
    return f"upstream-era/{server.key}"


async def _post(server: UpstreamServer, sent: Outgoing) -> connection.Reply:
    return await connection.post(server, sent, seconds=_seconds(server))


def _seconds(server: UpstreamServer) -> float:
    return min(server.seconds, HANDSHAKE_SECONDS) + server.start_seconds


def _result(reply: connection.Reply) -> dict[str, Any]:
    if not isinstance(reply.event, Answered):
        raise UpstreamFault(Kind.INVALID, "asked a question before the session was open.")
    return reply.event.result


def _modern(server: UpstreamServer) -> str:
    return f"upstream-modern/{server.key}"


def _legacy(server: UpstreamServer, caller: Caller) -> str:
    return _legacy_name(server.key, caller.session)


@lru_cache(maxsize=4096)
def _legacy_name(server: str, session: str) -> str:
    return f"upstream-session/{server}/{hashlib.sha256(session.encode()).hexdigest()}"


def _read(name: str) -> Peer | None:
    found = shared_values.get(name)
    return None if found is None else Peer(**orjson.loads(found))


def _is_shared(name: str, peer: Peer) -> bool:
    """Return True if Redis has this handshake, of which it has no texts."""
    return _read(name) == replace(peer, info={}, instructions="")


def _write(name: str, peer: Peer) -> None:
    told = {"version": peer.version, "session": peer.session, "capabilities": peer.capabilities}
    shared_values.put(name, orjson.dumps(told), MODERN_SECONDS if peer.is_modern else IDLE_SECONDS)


def _keep(server: UpstreamServer, caller: Caller, name: str, peer: Peer) -> None:
    now = time.monotonic()
    while len(_kept) >= _MAX_KEPT:
        del _kept[next(iter(_kept))]
    seconds = MODERN_SECONDS if peer.is_modern else IDLE_SECONDS
    _kept[name] = _Kept(server, caller, peer, seconds, now, now)
    if peer.session:
        loop = asyncio.get_running_loop()
        loop.call_later(IDLE_SECONDS + _RENEW_SECONDS, _look_for_end, name, peer, server)


def _look_for_end(name: str, peer: Peer, server: UpstreamServer) -> None:
    _in_background(_end_if_idle(name, peer, server))


def _in_background(work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.get_running_loop().create_task(work)
    _ending.add(task)
    task.add_done_callback(_ending.discard)


async def _end_if_idle(name: str, peer: Peer, server: UpstreamServer) -> None:
    kept = _kept.get(name)
    found = kept if kept is not None and kept.peer == peer else None
    used_here = found is not None and time.monotonic() - found.used_at < IDLE_SECONDS
    if used_here or await asyncio.to_thread(_is_shared, name, peer):
        if found is not None:
            loop = asyncio.get_running_loop()
            loop.call_later(IDLE_SECONDS, _look_for_end, name, peer, server)
        return
    if found is not None and _kept.get(name) is found:
        del _kept[name]
    await _delete(server if found is None else found.server, peer)


async def _delete(server: UpstreamServer, peer: Peer) -> None:
    if not peer.session:
        return
    # Without its credential, the server has to end the session itself.
    with suppress(UpstreamFault):
        await connection.delete(server, outgoing.ended(peer), seconds=_END_SECONDS)
