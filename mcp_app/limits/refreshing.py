"""The refresh of this process's rules, and the writing of what was used."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from django.db import Error as DatabaseFault

from mcp_app.database.queries import aquery
from mcp_app.limits import current, usage

STORE_SECONDS: Final = 1.0

log = logging.getLogger("mcp.limits")


class RulesRefresher:
    """The refresher of one process, on its event loop. ``on_change`` callbacks run after each broadcast."""

    def __init__(self) -> None:
        self.on_change: list[Callable[[], None]] = []
        self._changed = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Load the rules, and keep them current."""
        await aquery(current.load)
        self._running = asyncio.create_task(self._run())

    def on_broadcast(self, payload: dict[str, Any]) -> None:
        """Load the rules again, because a rule changed or was reset."""
        if "forget" in payload:
            usage.forget(payload["forget"])
        self._changed.set()

    async def close(self) -> None:
        """Stop, and store what was used."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait((self._running,))
        if usage.is_noted():
            await aquery(usage.store)

    async def _run(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(STORE_SECONDS):
                    await self._changed.wait()
            changed = self._changed.is_set()
            self._changed.clear()
            try:
                if usage.is_noted():
                    await aquery(usage.store)
                if changed or time.monotonic() - current.holder.loaded_at >= current.RELOAD_SECONDS:
                    await aquery(current.load)
            except DatabaseFault as error:
                log.warning("The limits could not be read: %s", error)
                if changed:
                    self._changed.set()
                    await asyncio.sleep(STORE_SECONDS)
                continue
            if changed:
                for callback in self.on_change:
                    callback()
