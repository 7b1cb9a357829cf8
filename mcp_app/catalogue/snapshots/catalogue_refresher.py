"""Refresh of this process's catalogue: reload after a change, then run callbacks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from django.db import Error as DatabaseFault

from mcp_app.catalogue.snapshots import current_snapshot as catalogue

REFRESH_RETRY_SECONDS = 2.0

log = logging.getLogger("mcp.catalogue")


class CatalogueRefresher:
    """The refresher of one process, on its event loop. ``on_change`` callbacks run after each load."""

    def __init__(self) -> None:
        self.on_change: list[Callable[[], None]] = []
        self._refreshing: set[asyncio.Task[None]] = set()
        self._announced = -1

    async def start(self) -> None:
        """Load the catalogue. Database errors propagate."""
        self._announced = (await catalogue.refresh()).revision
        self._run_callbacks()

    def on_broadcast(self, payload: dict[str, Any]) -> None:
        """Reload the catalogue if a broadcast has another revision, or its snapshot is not announced yet."""
        present = catalogue.current().revision
        # A request of this process may already have loaded the revision, but no callback has run for it.
        if payload.get("revision") != present or self._announced not in (-1, present):
            task = asyncio.create_task(self._refresh())
            self._refreshing.add(task)
            task.add_done_callback(self._refreshing.discard)

    def close(self) -> None:
        """Cancel pending loads."""
        for task in self._refreshing:
            task.cancel()

    async def _refresh(self) -> None:
        """Load the new lists before any client is notified (TOOL-23)."""
        revision = await _refreshed()
        if revision != self._announced:
            self._announced = revision
            self._run_callbacks()

    def _run_callbacks(self) -> None:
        for callback in self.on_change:
            callback()


async def _refreshed() -> int:
    """Refresh the catalogue and return the served revision. Retry as long as the database fails."""
    while True:
        try:
            return (await catalogue.refresh()).revision
        except DatabaseFault as error:
            # The broadcast is not repeated, so without a retry this process would keep serving the old lists.
            log.warning("The catalogue changed but cannot be read: %s", error)
            await asyncio.sleep(REFRESH_RETRY_SECONDS)
