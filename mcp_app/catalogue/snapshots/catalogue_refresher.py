"""Keeps the catalogue of this process true: loads it again when it was changed anywhere, then says so."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from django.db import Error as DatabaseFault

from mcp_app.catalogue.snapshots import current_snapshot as catalogue

REFRESH_RETRY_SECONDS = 2.0

log = logging.getLogger("mcp.catalogue")


class Upkeep:
    """Of one process, for the event loop that hears of changes. ``on_change`` is called after each load."""

    def __init__(self) -> None:
        self.on_change: list[Callable[[], None]] = []
        self._refreshing: set[asyncio.Task[None]] = set()
        self._told = -1

    async def start(self) -> None:
        """Load the catalogue; raises what the database raises."""
        self._told = (await catalogue.refresh()).revision
        self._say()

    def heard(self, payload: dict[str, Any]) -> None:
        """A broadcast named the newest revision."""
        present = catalogue.current().revision
        # A snapshot loaded by a request of this process is in use, but has not been announced.
        if payload.get("revision") != present or self._told not in (-1, present):
            task = asyncio.create_task(self._refresh())
            self._refreshing.add(task)
            task.add_done_callback(self._refreshing.discard)

    def close(self) -> None:
        """Load nothing any more."""
        for task in self._refreshing:
            task.cancel()

    async def _refresh(self) -> None:
        """TOOL-23: the new lists are in use before any client is notified of the change."""
        revision = await _refreshed()
        if revision != self._told:
            self._told = revision
            self._say()

    def _say(self) -> None:
        for callback in self.on_change:
            callback()


async def _refreshed() -> int:
    """Refresh the catalogue, however long the database is away; the revision that is served now."""
    while True:
        try:
            return (await catalogue.refresh()).revision
        except DatabaseFault as error:
            # The broadcast is not repeated: without the new lists this process would serve the old ones for
            # ever.
            log.warning("The catalogue changed but cannot be read: %s", error)
            await asyncio.sleep(REFRESH_RETRY_SECONDS)
