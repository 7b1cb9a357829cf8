"""The report of a process's open streams and running calls for the console.

Viewers announce themselves by broadcast. As long as an announcement is valid, each process broadcasts
reports. Without viewers no report is made.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any

from mcp_app.database import clock
from mcp_app.process import Process
from mcp_app.streams.base import StreamsError
from mcp_app.transports.open_streams import Connections

EVERY_SECONDS = 2.0
# The time for which an announcement by a viewer is valid.
WATCHED_SECONDS = 15.0
MOST_SESSIONS = 500
MOST_CALLS = 10


class LiveReport:
    """The sender of one process's reports. It runs on the event loop that ``start`` is called on."""

    def __init__(self, process: Process, connections: Connections) -> None:
        self._process = process
        self._connections = connections
        self._watched_until = 0.0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Subscribe to announcements of viewers."""
        self._process.attach_report(self._on_watching)

    async def close(self) -> None:
        """Stop reporting."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def report(self) -> dict[str, Any]:
        """Return the sessions with open streams or calls in this process. Sessions with calls come first."""
        streams = self._connections.by_session()
        calls = self._process.calls.in_flight()
        named = sorted(calls.keys() | streams.keys(), key=lambda session: session not in calls)
        sessions = {}
        for session in named[:MOST_SESSIONS]:
            listening, open_streams = streams.get(session, (False, 0))
            running = calls.get(session, [])
            sessions[session] = {
                "listening": listening,
                "streams": open_streams,
                "calls": len(running),
                "running": [
                    {"id": call.request_id, "method": call.method, "target": call.target}
                    for call in running[:MOST_CALLS]
                ],
            }
        return {
            "process": self._process.log.process,
            "at": clock.timestamp(),
            "sessions": sessions,
            "more": max(0, len(named) - MOST_SESSIONS),
        }

    def _on_watching(self, payload: dict[str, Any]) -> None:
        if "resync" in payload:
            return
        self._watched_until = time.monotonic() + WATCHED_SECONDS
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._report_while_watched())

    async def _report_while_watched(self) -> None:
        while time.monotonic() < self._watched_until:
            with suppress(StreamsError):
                await self._process.streams.hub.publish("live", self.report())
            await asyncio.sleep(EVERY_SECONDS)
