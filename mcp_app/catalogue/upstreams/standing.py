"""Changes that servers report outside of calls, from one process for the whole installation.

The process with the lease listens to every enabled server. Another process takes over when the lease ends.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Container
from dataclasses import dataclass, field
from typing import Final

from django.db import Error as DatabaseFault

from mcp_app.catalogue.sources.upstream import addresses, known
from mcp_app.catalogue.sources.upstream.source import UPSTREAM
from mcp_app.catalogue.upstreams import following
from mcp_app.catalogue.upstreams.refreshing import NEEDS_ACCOUNT
from mcp_app.database.queries import aquery
from mcp_app.models import Resource, Upstream
from mcp_app.protocol.client.answers import Notice
from mcp_app.protocol.client.faults import Kind, UpstreamFault
from mcp_app.protocol.features.subscriptions import RESOURCE_UPDATED
from mcp_app.streams.base import StreamsError
from mcp_app.streams.blocking import shared_values
from mcp_app.upstreams.listening import ENDS, Listener
from mcp_app.upstreams.server import UpstreamServer

POLL_SECONDS: Final = 10.0
LEASE_SECONDS: Final = 30.0
LEAST_SECONDS: Final = 1.0
MOST_SECONDS: Final = 300.0
# A stream counts as open after this time. A connection that cannot be made fails before.
SURE_SECONDS: Final = 10.0
# Some networks break streams every minute, so the lists are read after a break once in this time.
REREAD_SECONDS: Final = 480.0
# A server that offers no stream is asked again after this time.
REFUSED_SECONDS: Final = 3_600.0
# A burst of updates of one resource is reported once.
SETTLE_SECONDS: Final = 0.2
CLOSE_SECONDS: Final = 2.0
MAX_RESOURCES: Final = 500
_LEASE: Final = "upstream-changes"

_REFUSALS: Final = frozenset((Kind.NOT_MCP, Kind.REFUSED, Kind.UNSUPPORTED))

Notify = Callable[[str], Awaitable[object]]

log = logging.getLogger("mcp.upstream")


@dataclass(frozen=True)
class Wanted:
    """A server to listen to, and the URIs there of its published resources."""

    server: UpstreamServer
    uris: frozenset[str]


@dataclass(slots=True)
class _Running:
    wanted: Wanted
    listener: Listener
    task: asyncio.Task[None]


@dataclass(slots=True)
class StandingChanges:
    """The listeners of one process.

    ``notify`` reports the update of a resource to its subscribers. ``sources`` returns the stored names of
    the sources of all entries.
    """

    notify: Notify
    sources: Callable[[], Container[str]]
    _holder: str = field(default_factory=lambda: secrets.token_hex(8))
    _running: dict[int, _Running] = field(default_factory=dict)
    _updated: dict[str, set[str]] = field(default_factory=dict)
    _reporting: set[asyncio.Task[None]] = field(default_factory=set)
    _task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Listen from now on. This needs a running event loop."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stop listening, and let another process take over."""
        tasks = [task for task in (self._task, *self._reporting) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._running:
            await self.compare([])
            await asyncio.to_thread(shared_values.release, _LEASE, self._holder)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            # Most installations have no server, and pay nothing.
            if not self._running and UPSTREAM.stored not in self.sources():
                continue
            try:
                is_ours = await asyncio.to_thread(shared_values.acquire, _LEASE, self._holder, LEASE_SECONDS)
                await self.compare(await aquery(_wanted) if is_ours else [])
            except DatabaseFault as error:
                log.warning("The upstream servers could not be read: %s", error)

    async def compare(self, wanted: list[Wanted]) -> None:
        """Start, change and end listeners, so that there is one for each wanted server."""
        wanted_by_pk = {each.server.pk: each for each in wanted}
        ended = [pk for pk, running in self._running.items() if wanted_by_pk.get(pk) != running.wanted]
        over = [self._running.pop(pk) for pk in ended]
        for running in over:
            running.task.cancel()
        if over:
            await asyncio.wait([running.task for running in over])
        listeners = {running.wanted.server: running.listener for running in over}
        for pk, each in wanted_by_pk.items():
            if pk not in self._running:
                listener = listeners.pop(each.server, None) or Listener(each.server, self._on_notice(each))
                task = asyncio.get_running_loop().create_task(self._listen(listener, each))
                self._running[pk] = _Running(each, listener, task)
        if listeners:
            ends = [asyncio.ensure_future(listener.end()) for listener in listeners.values()]
            _, late = await asyncio.wait(ends, timeout=CLOSE_SECONDS)
            for end in late:
                end.cancel()

    async def _listen(self, listener: Listener, wanted: Wanted) -> None:
        """Listen until this task is cancelled. Pauses become longer while the server fails.

        After a break, the lists are read again, because changes in the meantime were not reported.
        """
        name, delay, has_missed, read_at = wanted.server.name, LEAST_SECONDS, False, time.monotonic()
        while True:
            since = time.monotonic()
            loop = asyncio.get_running_loop()
            reading = loop.call_later(SURE_SECONDS, following.follow, name) if has_missed else None
            fault, offers = None, True
            try:
                offers = await listener.run(wanted.uris)
            except UpstreamFault as error:
                fault = error
            finally:
                if reading is not None:
                    reading.cancel()
            if reading is not None and reading.when() <= loop.time():
                has_missed, read_at = False, time.monotonic()
            pause = LEAST_SECONDS if offers else REFUSED_SECONDS
            if fault is not None:
                was_open = fault.kind in ENDS and time.monotonic() - since > delay
                delay = LEAST_SECONDS if was_open else min(delay * 2, MOST_SECONDS)
                pause = REFUSED_SECONDS if fault.kind in _REFUSALS else delay
                if not was_open and not has_missed:
                    log.info("The server %s reports no changes outside of calls: it %s", name, fault)
                is_due = fault.kind is Kind.BROKEN_OFF and time.monotonic() - read_at > REREAD_SECONDS
                has_missed = has_missed or not was_open or is_due
            await asyncio.sleep(pause)

    def _on_notice(self, wanted: Wanted) -> Callable[[Notice], Awaitable[None]]:
        async def handle(notice: Notice) -> None:
            if notice.method.endswith("/list_changed"):
                known.lists_changed(wanted.server.name)
            elif notice.method == RESOURCE_UPDATED:
                uri = notice.params.get("uri")
                if isinstance(uri, str):
                    self._update(wanted.server.name, uri)

        return handle

    def _update(self, name: str, uri: str) -> None:
        waiting = self._updated.get(name)
        if waiting is not None:
            waiting.add(uri)
            return
        self._updated[name] = {uri}
        task = asyncio.get_running_loop().create_task(self._report(name))
        self._reporting.add(task)
        task.add_done_callback(self._reporting.discard)

    async def _report(self, name: str) -> None:
        await asyncio.sleep(SETTLE_SECONDS)
        updated = self._updated.pop(name)
        try:
            published = (await addresses.of(name)).uris
            for uri in updated & published.keys():
                await self.notify(published[uri])
        except (DatabaseFault, StreamsError) as error:
            log.warning("Updates of resources of the server %s were not reported: %s", name, error)


def _wanted() -> list[Wanted]:
    # To listen over stdio would need a process that is never idle.
    rows = Upstream.objects.filter(enabled=True, command="").exclude(NEEDS_ACCOUNT).defer("listed")
    uris: dict[str, list[str]] = {row.name: [] for row in rows}
    requests = Resource.objects.filter(request__upstream__in=[*uris]).values_list("request", flat=True)
    for request in requests.order_by("uri"):
        if request is None:
            continue
        found = uris[request["upstream"]]
        if len(found) < MAX_RESOURCES:
            found.append(str(request.get("resource")))
    return [Wanted(known.server_of(row), frozenset(uris[row.name])) for row in rows]
