"""The reader of the live message log. Each process has one, which passes every line to its viewers.

The reader runs only if there are viewers. It reads the queue from which the log writer feeds the database.
Each batch contains the number of lines that its process sent before, so missing lines are detected.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import orjson
from django.db import Error as DatabaseFault

from mcp_app.auth.principal_names import CallerName
from mcp_app.console.history import opened_clients
from mcp_app.console.line import Line, lines_of
from mcp_app.console.naming import Names, Unnamed, look_up, name_lines, unnamed
from mcp_app.console.session_rows import opened_row
from mcp_app.console.viewer import Viewer
from mcp_app.database import clock
from mcp_app.database.queries import aquery
from mcp_app.interface.text import marked
from mcp_app.message_log.log import PENDING_MARKS
from mcp_app.message_log.pending import RequestKey, is_answer, stored_requests
from mcp_app.streams.base import StreamsError, StreamsUnavailable
from mcp_app.streams.gateway import Streams

BATCHES = 10
WAIT_SECONDS = 2.0
RETRY_SECONDS = 1.0
# Seconds between two broadcasts about viewers. Other processes consider a broadcast valid for three times as
# long.
SAY_SECONDS = 5.0
MOST_PROCESSES = 1_000
MOST_CLIENTS = MOST_PENDING = 10_000
# Seconds after which names of callers and tools are looked up again.
NAMED_SECONDS = 60.0
AWAY = "Redis is unavailable. New messages appear when it is back."
FULL = "No worker writes the message log. New messages appear when a worker runs."

Batches = Sequence[tuple[str, bytes]]

log = logging.getLogger("mcp.console")


class Feed:
    """The live log for the viewers of one process. An instance belongs to one event loop."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._viewers: set[Viewer] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._stops: list[Callable[[], None]] = []
        self._changing = asyncio.Lock()
        self._position = "0-0"
        self._notice = ""
        # The number of lines that each process had sent, up to its last batch that was read.
        self._counted: OrderedDict[str, int] = OrderedDict()
        # Requests without an answer, so that pages learn of an answer that does not match their search.
        self._pending: OrderedDict[RequestKey, None] = OrderedDict()
        self._since = 0.0
        # Names by principal, tool and session. Callers and tools are looked up again after a time.
        self._callers: dict[str, CallerName] = {}
        self._tools: dict[str, int] = {}
        self._clients: OrderedDict[str, str] = OrderedDict()
        self._forget_at = 0.0

    async def join(self, viewer: Viewer) -> None:
        """Start to pass new lines to a viewer. Raises StreamsError."""
        async with self._changing:
            if not self._tasks:
                await self._start()
            self._viewers.add(viewer)
        self._broadcast_soon()

    async def leave(self, viewer: Viewer) -> None:
        """Stop passing lines to a viewer. The reader stops after the last viewer has left."""
        self._viewers.discard(viewer)
        async with self._changing:
            if not self._viewers and self._tasks:
                await self._stop()

    async def _start(self) -> None:
        self._position = await self._streams.tail.newest()
        self._counted.clear()
        self._since = clock.timestamp()
        self._pending.clear()
        try:
            self._pending.update(dict.fromkeys(await aquery(stored_requests, MOST_PENDING)))
        except DatabaseFault as error:
            log.warning("The pending requests could not be looked up: %s", error)
        hub = self._streams.hub
        self._stops = [hub.subscribe("live", self._on_live), hub.subscribe("session", self._on_session)]
        self._broadcast_due = asyncio.Event()
        self._tasks = [asyncio.create_task(self._read_on()), asyncio.create_task(self._broadcast_watching())]

    async def _stop(self) -> None:
        for stop in self._stops:
            stop()
        pending, self._tasks = set(self._tasks), []
        while pending:
            for task in pending:
                task.cancel()
            # Cancel repeatedly, because a library may have suppressed the cancellation. New viewers wait for
            # this loop.
            _, pending = await asyncio.wait(pending, timeout=1)
        await self._streams.tail.close()

    async def _read_on(self) -> None:
        failed = 0
        while True:
            try:
                batches = await self._streams.tail.after(self._position, BATCHES, WAIT_SECONDS)
                if not batches:
                    batches = await self._after_silence()
            except StreamsUnavailable:
                failed += 1
                if failed > 1:  # A single dropped connection is not an outage.
                    self._set_notice(AWAY)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            failed = 0
            self._set_notice("", after=AWAY)
            for batch_id, encoded in batches:
                self._position = batch_id
                await self._take(batch_id, encoded)
                # A batch may contain hundreds of lines, so requests must be able to run between batches.
                await asyncio.sleep(0)

    async def _after_silence(self) -> Batches:
        """Return batches that the previous read, which returned nothing, may have missed.

        If they have already been deleted from the queue, the viewers are asked to reload their history.
        """
        tail = self._streams.tail
        newest = await tail.newest()
        if newest in (self._position, "0-0"):
            return ()  # There is nothing new, or the newest position is unknown.
        batches = await tail.after(self._position, BATCHES, 0)
        if not batches:
            self._position = newest
            self._counted.clear()  # The reloaded history will include all missed lines.
            for viewer in self._viewers:
                viewer.read_again()
        return batches

    async def _take(self, batch_id: str, encoded: bytes) -> None:
        try:
            batch = orjson.loads(encoded)
            missed = self._missed(batch)
            lines = list(lines_of(batch_id, batch))
            facts = batch["facts"]
        except (ValueError, LookupError, TypeError) as error:
            # The log writer records such a batch as skipped.
            log.warning("A log batch could not be shown: %s", error)
            self._missed_by_all(1)
            return
        opening = [fact for fact in facts if fact.get("fact") == "session.opened"]
        await self._name(lines, opened_clients(batch), {str(fact["principal"]) for fact in opening})
        # Counted directly before the lines, so that pages show both together.
        self._missed_by_all(missed)
        self._track(lines)
        seen: dict[str, dict[str, Any]] = {}
        for line in lines:
            if line.session and line.direction == "in":
                seen[line.session] = {"at": line.at * 1000, "process": marked(line.process)}
        opened = [opened_row(fact, self._callers) for fact in opening]
        ended = [
            {"id": str(fact["session"]), "reason": marked(fact.get("reason", ""))}
            for fact in facts
            if fact.get("fact") == "session.ended"
        ]
        for viewer in self._viewers:
            viewer.offer(lines)
            if viewer.watches_sessions:
                for kind, value in (("seen", seen), ("opened", opened), ("ended", ended)):
                    if value:
                        viewer.queue_data(kind, value)
            elif own := [each for each in ended if each["id"] == viewer.session]:
                viewer.queue_data("ended", own)

    async def _name(self, lines: list[Line], opened: dict[str, str], openers: set[str]) -> None:
        """Set the names in the lines, and look up those of the users who opened sessions."""
        self._clients.update(opened)
        now = clock.timestamp()
        if now > self._forget_at or len(self._callers) + len(self._tools) > MOST_CLIENTS:
            self._callers.clear()
            self._tools.clear()
            self._forget_at = now + NAMED_SECONDS
        wanted = unnamed(lines)
        missing = Unnamed(
            (wanted.principals | openers) - self._callers.keys(),
            wanted.sessions - self._clients.keys(),
            wanted.tools - self._tools.keys(),
        )
        if any(missing):
            try:
                found = await aquery(look_up, missing)
                self._callers.update(found.callers)
                self._clients.update(found.clients)
                self._tools.update(found.tools)
            except DatabaseFault as error:
                log.warning("The names in new messages could not be looked up: %s", error)
        name_lines(lines, Names(self._callers, self._clients, self._tools))
        while len(self._clients) > MOST_CLIENTS:
            self._clients.popitem(last=False)

    def _track(self, lines: list[Line]) -> None:
        """Find the lines that replace a mark. Requests that are older than the feed may have one."""
        for line in lines:
            if is_answer(line):
                known = line.request in self._pending
                line.replaces_mark = known or line.ms is None or line.at - line.ms / 1000 < self._since
                if known:
                    del self._pending[line.request]
            elif line.kind in PENDING_MARKS:
                line.replaces_mark = line.kind != "waiting" and line.request in self._pending
                self._pending[line.request] = None
        while len(self._pending) > MOST_PENDING:
            self._pending.popitem(last=False)

    def _missed(self, batch: dict[str, Any]) -> int:
        """Return the number of lines that were lost since the previous batch of the process.

        Returns 0 for the first batch of a process.
        """
        process, before = str(batch["process"]), int(batch["before"])
        counted = self._counted.pop(process, None)
        self._counted[process] = before + len(batch["lines"])
        if len(self._counted) > MOST_PROCESSES:
            self._counted.popitem(last=False)
        # A restarted process with the same name counts from zero again.
        return before - counted if counted is not None and before > counted else 0

    def _missed_by_all(self, count: int) -> None:
        if count:
            for viewer in self._viewers:
                viewer.missed(count)

    def _on_live(self, payload: dict[str, Any]) -> None:
        """Send a process's open requests to viewers of the session list and of single sessions."""
        if "process" not in payload:
            return
        process, sessions = marked(payload["process"]), payload["sessions"]
        counts = {
            name: [found["listening"], found["streams"], found["calls"]] for name, found in sessions.items()
        }
        for viewer in self._viewers:
            if viewer.watches_sessions:
                viewer.queue_data("live", {process: {"sessions": counts, "more": payload["more"]}})
            elif viewer.session:
                viewer.queue_data("live", {process: _running(sessions.get(viewer.session))})

    def _on_session(self, payload: dict[str, Any]) -> None:
        """Report that an operator ended a session. The message log does not record this."""
        if payload.get("what") == "ended":
            ended = [{"id": payload["session"], "reason": marked(payload.get("reason", ""))}]
            for viewer in self._viewers:
                if viewer.watches_sessions or viewer.session == payload["session"]:
                    viewer.queue_data("ended", ended)

    def _set_notice(self, text: str, *, after: str | None = None) -> None:
        """Show viewers the reason why no new lines appear.

        With ``after``, the text changes only if that reason is currently shown.
        """
        if after is not None and self._notice != after:
            return
        self._notice = text
        for viewer in self._viewers:
            viewer.queue_data("note", text)

    def _broadcast_soon(self) -> None:
        self._broadcast_due.set()

    async def _broadcast_watching(self) -> None:
        """Ask all processes repeatedly to flush lines sooner and to report their open requests."""
        while True:
            try:
                await self._streams.hub.publish("watching", {"watching": True})
                if await self._streams.messages.full():
                    self._set_notice(FULL)
                else:
                    self._set_notice("", after=FULL)
            except StreamsError:
                pass  # Until a broadcast succeeds, lines arrive later.
            self._broadcast_due.clear()
            try:
                async with asyncio.timeout(SAY_SECONDS):
                    await self._broadcast_due.wait()
            except TimeoutError:
                continue


def _running(found: dict[str, Any] | None) -> dict[str, Any]:
    """Return the open requests that one process runs for a session.

    Ids and names come from the client, so hidden characters in them are marked.
    """
    if found is None:
        return {"listening": False, "streams": 0, "running": []}
    running = [
        {
            "id": call["id"],
            "shown": marked(call["id"]),
            "method": marked(call["method"]),
            "target": marked(call["target"]),
        }
        for call in found["running"]
    ]
    return {"listening": found["listening"], "streams": found["streams"], "running": running}
