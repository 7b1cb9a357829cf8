"""The standing stream of a server: its notifications that belong to no call.

A legacy server sends them on a GET stream of a session, and a modern server in the answer to
``subscriptions/listen``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final

from mcp_app.protocol.client import outgoing
from mcp_app.protocol.client.answers import Asked, Event, Notice
from mcp_app.protocol.client.faults import Kind, UpstreamFault
from mcp_app.protocol.client.outgoing import Peer
from mcp_app.upstreams import client, connection, sessions
from mcp_app.upstreams.caller import Caller
from mcp_app.upstreams.server import UpstreamServer

# A stream is opened again after this time, long before its session counts as idle.
OPEN_SECONDS: Final = 480.0
SUBSCRIBE_SECONDS: Final = 5.0
# Many servers send no comments on a stream without messages.
_QUIET_SECONDS: Final = OPEN_SECONDS
# Kinds of faults with which a stream ends after it was open.
ENDS: Final = frozenset((Kind.BROKEN_OFF, Kind.TIMEOUT, Kind.TOO_LARGE))
_CALLER: Final = Caller("changes")
_LISTS: Final = ("tools", "prompts", "resources")

OnNotice = Callable[[Notice], Awaitable[None]]


class Listener:
    """The listener to one server, and its subscriptions to resources in a legacy session."""

    def __init__(self, server: UpstreamServer, on_notice: OnNotice) -> None:
        self.server, self._on_notice = server, on_notice
        self._subscribed: dict[str, set[str]] = {}

    async def run(self, uris: Collection[str]) -> bool:
        """Pass notifications on until the stream ends. Raise UpstreamFault.

        ``uris`` are resources at the server. Return False if the server reports no changes.
        """
        peer = await client.opened(self.server, _CALLER)
        wanted = sorted(uris) if _has(peer, "resources", "subscribe") else []
        if not wanted and not any(_has(peer, name, "listChanged") for name in _LISTS):
            return False
        who, number = sessions.identity(_CALLER), sessions.next_id()
        try:
            if not peer.is_modern:
                await self._subscribe(peer, {*wanted})
            sent = outgoing.listening(peer, who, number, wanted)
            await connection.post(
                self.server, sent, on_event=self._handle, seconds=OPEN_SECONDS, idle=lambda: _QUIET_SECONDS
            )
        except UpstreamFault as fault:
            if fault.kind is Kind.EXPIRED:
                await sessions.forget(self.server, _CALLER, peer)
            raise
        return True

    async def end(self) -> None:
        """End the session of the listener at a legacy server."""
        await sessions.end(self.server, _CALLER)

    async def _subscribe(self, peer: Peer, wanted: set[str]) -> None:
        """Subscribe a session to resources, and unsubscribe it from others."""
        known = self._subscribed.get(peer.session, set())
        self._subscribed = {peer.session: known}
        changes = [("resources/subscribe", uri) for uri in sorted(wanted - known)]
        changes += [("resources/unsubscribe", uri) for uri in sorted(known - wanted)]
        for method, uri in changes:
            try:
                await self._ask(peer, method, {"uri": uri})
            except UpstreamFault as fault:
                if fault.kind is not Kind.REFUSED:
                    raise
                # The server may have removed the resource, or allow fewer subscriptions.
            known.symmetric_difference_update({uri})

    async def _ask(self, peer: Peer, method: str, params: dict[str, Any]) -> None:
        who = sessions.identity(_CALLER)
        sent = outgoing.request(peer, who, sessions.next_id(), method, params)
        await connection.post(self.server, sent, on_event=self._handle, seconds=SUBSCRIBE_SECONDS)

    async def _handle(self, event: Event) -> None:
        if isinstance(event, Notice):
            await self._on_notice(event)
        elif isinstance(event, Asked):
            peer = await sessions.opened(self.server, _CALLER)
            answer = (
                outgoing.answered(peer, event.id, {})
                if event.method == "ping"
                else outgoing.declined(peer, event.id, event.method)
            )
            await connection.post(self.server, answer, seconds=SUBSCRIBE_SECONDS)


def _has(peer: Peer, capability: str, member: str) -> bool:
    found = peer.capabilities.get(capability)
    return isinstance(found, dict) and found.get(member) is True
