"""The open subscriptions of one process and their notifications, for every transport (SUB-01 to SUB-15).

A notification only states that something changed and must be read again. A new notification about a name
replaces the pending notification, so a slow client has at most one for each name. After a reconnection to
Redis every subscriber is notified that its resources may have changed, in case a broadcast was lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any, Final

from mcp_app.auth.principal import Principal
from mcp_app.handlers.context import CallerContext
from mcp_app.handlers.subscriptions import KINDS, grant
from mcp_app.process import Process
from mcp_app.protocol.features.subscriptions import (
    LIST_CHANGED,
    LISTS,
    METHOD,
    RESOURCE_UPDATED,
    RESOURCES,
    Notice,
    acknowledgement,
    closing,
)
from mcp_app.protocol.features.tasks import TASK_IDS
from mcp_app.protocol.messages import jsonrpc
from mcp_app.sessions.negotiated import Negotiated
from mcp_app.transports.event_loop_turns import run_in_turns
from mcp_app.transports.task_updates import TaskUpdates

CHANGED: Final = {kind: Notice(method) for kind, method in LIST_CHANGED.items()}
# A member of the filter, and a name that the member lists.
Key = tuple[str, str]


class Subscription:
    """A listen request: its granted filter and its pending notifications."""

    __slots__ = (
        "_heard",
        "_lists",
        "_news",
        "_path",
        "_views",
        "_wake",
        "id",
        "keys",
        "principal",
        "removed",
        "request_id",
        "server",
        "tag",
    )

    def __init__(
        self,
        asked: CallerContext,
        request_id: jsonrpc.Id,
        granted: dict[str, Any],
        wake: Callable[[], None],
    ) -> None:
        self.id = asked.session.id
        self.server = asked.catalogue.server
        self.removed = False  # True if the server has been deleted.
        self.principal = asked.principal  # Transports replace it when they authenticate again.
        self.request_id = request_id
        self.tag = jsonrpc.encode_id(request_id)
        self.keys: tuple[Key, ...] = tuple(
            (member, name) for member in KINDS for name in granted.get(member, ())
        )
        self._lists = tuple([kind for member, kind in LISTS.items() if granted.get(member)])
        self._views, self._path = asked.services.views, asked.session.path
        # The revisions of lists that were last announced to the client. Clients share the snapshot's object.
        self._heard = asked.catalogue.snapshot.revisions
        self._news: dict[Key, Notice] = {}
        self._wake = wake

    def wake(self) -> None:
        """Make the writer check for due notifications."""
        self._wake()

    def wake_for_lists(self) -> None:
        """Wake the writer after a change of a list, if the client subscribed to lists."""
        if self._lists:
            self._wake()

    def receive(self, key: Key, notice: Notice) -> None:
        """Add or replace the pending notification about a name."""
        self._news[key] = notice

    def check_removed(self) -> bool:
        """Return True if the server was deleted, or if the client may no longer use it."""
        self.removed = self._views.of(self.principal.permissions, self._path).server.removed
        return self.removed

    def due(self) -> list[Notice]:
        """Return the pending notifications and clear them."""
        found: list[Notice] = []
        catalogue = self._views.of(self.principal.permissions, self._path)
        self.removed = catalogue.server.removed
        if self.removed:
            return found
        revisions = catalogue.snapshot.revisions
        if revisions is not self._heard:
            previous, self._heard = self._heard, revisions
            found += [CHANGED[kind] for kind in self._lists if revisions[kind] != previous[kind]]
        if self._news:
            news, self._news = self._news, {}
            for (member, name), notice in news.items():
                if KINDS[member].permits(name, catalogue):
                    found.append(notice)
        return found


class Subscriptions:
    """The subscriptions of one process. Use them on the event loop only."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._listening: dict[Subscription, None] = {}
        self._by_key: dict[Key, dict[Subscription, None]] = {}
        # The catalogue revision up to which changed resource contents were announced.
        self._revision = process.views.whole.revision
        self._tasks = TaskUpdates(
            process.background,
            lambda task_id: self.includes(TASK_IDS, task_id),
            lambda: self._named(TASK_IDS),
            lambda task_id, notice: self.notify(TASK_IDS, task_id, notice),
        )
        process.attach_subscriptions(self._catalogue_changed, self._resource_updated, self._tasks.on_change)

    async def open(
        self,
        asked: CallerContext,
        request: jsonrpc.Request,
        payload: bytes,
        address: str,
        wake: Callable[[], None],
    ) -> tuple[Subscription, bytes]:
        """Open a subscription and return it with its acknowledgement. Raise InvalidParams.

        The subscription collects changes even before it is acknowledged (SUB-05). ``wake`` is called when
        notifications are pending.
        """
        started = perf_counter()
        exchange, principal = asked.session, asked.principal
        granted = await grant(asked, request.params)
        subscription = Subscription(asked, request.id, granted, wake)
        self._listening[subscription] = None
        for key in subscription.keys:
            self._by_key.setdefault(key, {})[subscription] = None
        answer = acknowledgement(subscription.tag, granted)
        # Earlier changes count as well, so the current status of each task is sent (TASKX-16).
        self._tasks.send_status(granted.get(TASK_IDS, ()))
        self._log_opened(exchange, principal, address)
        seconds = perf_counter() - started
        self._process.counts.done(METHOD, "ok", "", seconds)
        if self._process.log.enabled:
            facts = (METHOD, request.id, "")
            self._process.log.exchange(subscription.id, principal.key, payload, answer, seconds, "ok", facts)
        return subscription, answer

    def take(self, subscription: Subscription) -> list[bytes]:
        """Return the encoded notifications that are due, and log them as sent."""
        messages = []
        log = self._process.log
        for notice in subscription.due():
            message = notice.tagged(subscription.tag)
            log.single(
                subscription.id, subscription.principal.key, "out", "notification", message, notice.method
            )
            messages.append(message)
        return messages

    def closing(self, subscription: Subscription) -> bytes:
        """Return the answer with which the server ends a subscription, and log it as sent."""
        answer = closing(subscription.request_id, subscription.server.meta)
        self._process.log.single(
            subscription.id,
            subscription.principal.key,
            "out",
            "response",
            answer,
            METHOD,
            str(subscription.request_id),
        )
        return answer

    def close(self, subscription: Subscription, reason: str) -> None:
        """Remove a subscription that has ended, for example because its client disconnected (SUB-13)."""
        del self._listening[subscription]
        for key in subscription.keys:
            listening = self._by_key[key]
            del listening[subscription]
            if not listening:
                del self._by_key[key]
        self._process.log.fact("session.ended", session=subscription.id, reason=reason)

    def includes(self, member: str, name: str) -> bool:
        """Return True if a subscription includes a name. Changes of other names can be ignored."""
        return (member, name) in self._by_key

    def notify(self, member: str, name: str, notice: Notice) -> None:
        """Notify the subscribers of a name. A newer notification replaces a pending one."""
        key = member, name
        listening = list(self._by_key.get(key, ()))
        for subscription in listening:
            subscription.receive(key, notice)
        run_in_turns(Subscription.wake, listening)

    def _named(self, member: str) -> list[str]:
        return [name for present, name in self._by_key if present == member]

    def _catalogue_changed(self) -> None:
        catalogue = self._process.views.whole
        known, self._revision = self._revision, catalogue.revision
        for uri in catalogue.updated_since(known):
            self._resource_updated({"uri": uri})
        run_in_turns(Subscription.wake_for_lists, list(self._listening))

    def _resource_updated(self, payload: dict[str, Any]) -> None:
        uris: Iterable[str] = [payload["uri"]] if "uri" in payload else ()
        if "resync" in payload:
            # Broadcasts may have been missed, so every listed name counts as changed.
            uris = self._named(RESOURCES)
        for uri in uris:
            self.notify(RESOURCES, uri, Notice(RESOURCE_UPDATED, {"uri": uri}))

    def _log_opened(self, exchange: Negotiated, principal: Principal, address: str) -> None:
        """Record the subscription as a session, so that operators can see and end it.

        The record has no fields, because a subscription cannot be resumed.
        """
        self._process.log.fact(
            "session.opened",
            session=exchange.id,
            principal=principal.key,
            user=principal.user_id,
            version=exchange.version,
            client_name=exchange.client_name,
            client_version=str(exchange.client_info.get("version", "")),
            fields={},
            address=address,
        )
