"""The parts of a process that live as long as the process, their connections, and their start and end."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from django.db import DatabaseError

from mcp_app.auth.authentication import Authenticator
from mcp_app.auth.identity_provider import provider
from mcp_app.catalogue.snapshots.catalogue_refresher import CatalogueRefresher
from mcp_app.catalogue.snapshots.current_snapshot import Views
from mcp_app.catalogue.upstreams import following
from mcp_app.catalogue.upstreams.standing import StandingChanges
from mcp_app.conf import Settings
from mcp_app.database import clock, queries
from mcp_app.dispatcher import Dispatcher
from mcp_app.execution.background import answer_streams, reaper
from mcp_app.execution.background.service import Background
from mcp_app.execution.calls.calls import RunningCalls
from mcp_app.execution.calls.ended_connections import EndedConnections
from mcp_app.execution.calls.runner import Runner
from mcp_app.handlers.context import Services
from mcp_app.limits import current
from mcp_app.limits.refreshing import RulesRefresher
from mcp_app.message_log.log import MessageLog
from mcp_app.metrics.counts import Counts
from mcp_app.metrics.report import MetricsReporter
from mcp_app.observability import spans
from mcp_app.sessions import resource_updates
from mcp_app.sessions.client_requests import ClientRequests
from mcp_app.sessions.clients import Clients
from mcp_app.sessions.open_sessions import Sessions
from mcp_app.sessions.standalone_stream import Standalone
from mcp_app.streams.base import StreamsUnavailable
from mcp_app.streams.blocking import projects
from mcp_app.streams.blocking.server_facts import cluster_fault
from mcp_app.streams.gateway import Streams
from mcp_app.upstreams import sessions as upstream_sessions

log = logging.getLogger("mcp.process")

Callback = Callable[[], None]
# A callback that gets the payload of a broadcast.
BroadcastCallback = Callable[[dict[str, Any]], None]


class OpenStreams(Protocol):
    """The event streams that a transport holds open for clients."""

    @property
    def open(self) -> int: ...

    def announce_catalogue(self) -> None: ...

    def recheck(self, changed: Mapping[str, Any], /) -> None: ...

    def stop_session(self, session_id: str, /) -> None: ...

    def wake_session(self, session_id: str, /) -> None: ...

    def take_over(self, session_id: str, token: str, /) -> None: ...


class Process(Services):
    """The services of one process that serves messages. Its transports share them."""

    def __init__(self, streams: Streams, settings: Settings) -> None:
        log, counts = MessageLog(streams, settings), Counts()
        requests = ClientRequests(streams, log, settings.client_request_seconds)
        super().__init__(
            settings=settings,
            streams=streams,
            sessions=Sessions(streams, settings),
            requests=requests,
            calls=RunningCalls(
                streams, requests, Runner(settings.sync_threads, serves=True), counts, settings
            ),
            background=Background(streams, settings, log),
            log=log,
            counts=counts,
            views=Views(settings.server),
        )
        self._ended_connections = EndedConnections(self.calls)
        self.authenticator = Authenticator(settings.auth, settings.wrong_keys_per_minute)
        # Called after a credential was revoked and removed from the cache.
        self.on_credentials: list[BroadcastCallback] = []
        self.clients = Clients(log, settings.session_idle_seconds)
        self.standalone = Standalone(streams, settings.stream_check_seconds)
        self.catalogue_refresher = CatalogueRefresher()
        self.rules = RulesRefresher()
        self.upstream_changes = StandingChanges(
            partial(resource_updates.publish_update, streams), lambda: self.views.whole.sources
        )
        self.metrics = MetricsReporter("web", streams, counts, log)
        self.dispatcher = Dispatcher(self)
        self._stop_sweeping = threading.Event()
        self._connect_parts()

    def _connect_parts(self) -> None:
        self.catalogue_refresher.on_change.append(self._redact_secrets)
        self.rules.on_change.append(self.background.gate.limiter.leases.forget)
        self.log.before_flush.append(self._record_used_keys)
        self.sessions.on_end.append(upstream_sessions.client_ended)
        following.start()
        self.metrics.gauges["running_calls"] = lambda: self.calls.running
        self.metrics.gauges["sessions"] = lambda: self.sessions.held
        self.metrics.gauges["keys_age"] = provider.keys_age

    def _listen(self) -> None:
        """Subscribe to the broadcasts of other processes."""
        hub = self.streams.hub
        hub.subscribe("catalogue", self.catalogue_refresher.on_broadcast)
        hub.subscribe(current.TOPIC, self.rules.on_broadcast)
        hub.subscribe("cancel", self.calls.on_cancel)
        hub.subscribe("credentials", self._credentials_changed)
        hub.subscribe("credentials", self.calls.on_credentials)
        hub.subscribe("watching", self.log.on_watching)
        self.sessions.start()

    def attach_streams(self, streams: OpenStreams) -> None:
        """Connect the open event streams of a transport to all events that affect them."""
        self.metrics.gauges["open_streams"] = lambda: streams.open
        self.catalogue_refresher.on_change.append(streams.announce_catalogue)
        self.on_credentials.append(streams.recheck)
        self.sessions.on_end.append(streams.stop_session)
        self.sessions.on_change.append(streams.wake_session)
        self.sessions.on_take_over.append(streams.take_over)

    def attach_subscriptions(
        self,
        catalogue_changed: Callback,
        resource_updated: BroadcastCallback,
        task_changed: BroadcastCallback,
    ) -> None:
        """Connect the subscriptions of a transport's clients to the changes that they may be about."""
        self.catalogue_refresher.on_change.append(catalogue_changed)
        self.streams.hub.subscribe(resource_updates.TOPIC, resource_updated)
        self.streams.hub.subscribe(answer_streams.TASKS, task_changed)

    def attach_report(self, on_watching: BroadcastCallback) -> None:
        """Connect the live report of this process to the broadcasts that viewers send."""
        self.streams.hub.subscribe("watching", on_watching)

    async def start(self) -> None:
        """Connect, load the catalogue and subscribe to broadcasts."""
        queries.watch()
        with suppress(DatabaseError):
            await queries.aquery(clock.read)
        self._listen()
        await self.catalogue_refresher.start()
        await self.streams.start()
        if self.settings.redis_url:
            await asyncio.to_thread(_check_shared_redis, self.settings.redis_url)
        else:
            resource_updates.serve_here(self.streams)
        await self.rules.start()
        self.upstream_changes.start()
        self._ended_connections.start()
        self.log.start()
        spans.start()
        if spans.active is not None:
            self.dispatcher.run_every_call_with_its_span()
        if self.settings.metrics:
            self.metrics.start()
        if self.background.available:
            # Web processes sweep as well, because no worker may be alive.
            self._stop_sweeping.clear()
            threading.Thread(
                target=reaper.run_forever, args=(self._stop_sweeping,), name="reaper", daemon=True
            ).start()

    async def close(self) -> None:
        """Stop everything in an order that loses no data: calls, the log, the connections to Redis."""
        self._stop_sweeping.set()
        resource_updates.leave(self.streams)
        self.catalogue_refresher.close()
        await self.rules.close()
        await self.upstream_changes.close()
        await self._ended_connections.close()
        await self.calls.close(seconds=3)
        await self.background.close()
        await self.metrics.close()
        await self.log.close()
        await self.streams.close()
        # An open connection would prevent a test's database from being dropped.
        await asyncio.to_thread(queries.close)

    def _credentials_changed(self, what: dict[str, Any]) -> None:
        self.authenticator.forget(what)
        for callback in self.on_credentials:
            callback(what)

    def _redact_secrets(self) -> None:
        self.log.keep_secret(self.views.whole.secret_names)

    def _record_used_keys(self) -> None:
        used = self.authenticator.used
        if used:
            self.authenticator.used = {}
            self.log.fact("key.used", keys={str(key): at for key, at in used.items()})


def _check_shared_redis(redis_url: str) -> None:
    """Log an error if Redis is a Cluster, and a warning if another project uses the same database.

    Otherwise the worker of that project would write this project's message log.
    """
    if refused := cluster_fault(redis_url):
        log.error("%s", refused)
        return
    with suppress(StreamsUnavailable):
        if projects.register(redis_url):
            log.warning("Another project uses this database of Redis. Give each its own, as in redis://…/1.")
