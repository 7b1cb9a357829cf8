"""The open subscriptions of one process and their notifications, for every transport (SUB-01 to SUB-15).

Notifications are level-triggered: "changed, look again". So those of one thing replace each other, and what
waits for a slow client is bounded by what it subscribed to. A lost broadcast is made good when the connection
to Redis is back: then every subscriber is notified that its resources may have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any, Final

from mcp_app.auth.principal import EVERYTHING, Principal
from mcp_app.handlers.context import Asked
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
from mcp_app.transports.task_news import TaskNews
from mcp_app.transports.turns import take_turns

CHANGED: Final = {kind: Notice(method) for kind, method in LIST_CHANGED.items()}
# A member of the filter, and which of the things it names.
Key = tuple[str, str]


class Subscription:
    """One listen request: its granted filter, and its pending notifications."""

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
        "request_id",
        "server",
        "tag",
    )

    def __init__(
        self,
        asked: Asked,
        request_id: jsonrpc.Id,
        granted: dict[str, Any],
        wake: Callable[[], None],
    ) -> None:
        self.id = asked.session.id
        self.server = asked.catalogue.server
        self.principal = asked.principal  # as of the last look; a transport may replace it
        self.request_id = request_id
        self.tag = jsonrpc.encode_id(request_id)
        self.keys: tuple[Key, ...] = tuple(
            (member, name) for member in KINDS for name in granted.get(member, ())
        )
        self._lists = tuple([kind for member, kind in LISTS.items() if granted.get(member)])
        self._views, self._path = asked.services.views, asked.session.path
        # Those of the catalogue that was last announced to its client: one object for all that heard of it.
        self._heard = asked.catalogue.snapshot.revisions
        self._news: dict[Key, Notice] = {}
        self._wake = wake

    def wake(self) -> None:
        """Have its writer look at what is due."""
        self._wake()

    def wake_for_lists(self) -> None:
        """A list changed."""
        if self._lists:
            self._wake()

    def hear(self, key: Key, notice: Notice) -> None:
        """Something it named changed."""
        self._news[key] = notice

    def due(self) -> list[Notice]:
        """Take the pending notifications."""
        found = []
        catalogue = self._views.of(self.principal.permissions, self._path)
        revisions = catalogue.snapshot.revisions
        if revisions is not self._heard:
            heard, self._heard = self._heard, revisions
            found += [CHANGED[kind] for kind in self._lists if revisions[kind] != heard[kind]]
        if self._news:
            news, self._news = self._news, {}
            for (member, name), notice in news.items():
                if KINDS[member].may_hear(name, catalogue):
                    found.append(notice)
        return found


class Subscriptions:
    """All of one process. Use it from the event loop only."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._listening: dict[Subscription, None] = {}
        self._by_key: dict[Key, dict[Subscription, None]] = {}
        # The revision up to which changed contents were announced.
        self._revision = process.views.of(EVERYTHING).revision
        self._tasks = TaskNews(
            process.background,
            lambda task_id: self.wanted(TASK_IDS, task_id),
            lambda: self._named(TASK_IDS),
            lambda task_id, notice: self.tell(TASK_IDS, task_id, notice),
        )
        process.attach_subscriptions(self._catalogue_changed, self._resource_updated, self._tasks.on_change)

    async def open(
        self,
        asked: Asked,
        request: jsonrpc.Request,
        payload: bytes,
        address: str,
        wake: Callable[[], None],
    ) -> tuple[Subscription, bytes]:
        """Begin a subscription; from now on it hears of changes, and only then is it acknowledged (SUB-05).

        Returns it with the acknowledgement. ``wake`` is called when it has something to tell. Raises
        InvalidParams.
        """
        started = perf_counter()
        exchange, principal = asked.session, asked.principal
        granted = await grant(asked, request.params)
        subscription = Subscription(asked, request.id, granted, wake)
        self._listening[subscription] = None
        for key in subscription.keys:
            self._by_key.setdefault(key, {})[subscription] = None
        answer = acknowledgement(subscription.tag, granted)
        # Earlier changes are reported too: the current status of each task (TASKX-16).
        self._tasks.look(granted.get(TASK_IDS, ()))
        self._note_opened(exchange, principal, address)
        seconds = perf_counter() - started
        self._process.counts.done(METHOD, "ok", "", seconds)
        if self._process.log.enabled:
            facts = (METHOD, request.id, "")
            self._process.log.exchange(subscription.id, principal.key, payload, answer, seconds, "ok", facts)
        return subscription, answer

    def take(self, subscription: Subscription) -> list[bytes]:
        """The notifications that are due now; they count as sent."""
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
        """The answer with which the server ends a subscription, noted as sent."""
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
        """Its client is gone: nothing of it is left (SUB-13)."""
        del self._listening[subscription]
        for key in subscription.keys:
            listening = self._by_key[key]
            del listening[subscription]
            if not listening:
                del self._by_key[key]
        self._process.log.fact("session.ended", session=subscription.id, reason=reason)

    def wanted(self, member: str, name: str) -> bool:
        """Whether a subscription here includes a thing: otherwise its changes need not be looked up."""
        return (member, name) in self._by_key

    def tell(self, member: str, name: str, notice: Notice) -> None:
        """Something that a member of filters can name changed; newer news of it replace older ones."""
        key = member, name
        listening = list(self._by_key.get(key, ()))
        for subscription in listening:
            subscription.hear(key, notice)
        take_turns(Subscription.wake, listening)

    def _named(self, member: str) -> list[str]:
        return [name for present, name in self._by_key if present == member]

    def _catalogue_changed(self) -> None:
        catalogue = self._process.views.of(EVERYTHING)
        told, self._revision = self._revision, catalogue.revision
        for uri in catalogue.snapshot.updated_since(told):
            self._resource_updated({"uri": uri})
        take_turns(Subscription.wake_for_lists, list(self._listening))

    def _resource_updated(self, payload: dict[str, Any]) -> None:
        uris: Iterable[str] = [payload["uri"]] if "uri" in payload else ()
        if "resync" in payload:
            # What was missed is unknown.
            uris = self._named(RESOURCES)
        for uri in uris:
            self.tell(RESOURCES, uri, Notice(RESOURCE_UPDATED, {"uri": uri}))

    def _note_opened(self, exchange: Negotiated, principal: Principal, address: str) -> None:
        """Operators see it among the sessions, and can end it; nothing is stored that could be resumed."""
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
