"""Cancellation of calls whose OAuth connection ended and for which no broadcast arrived."""

from __future__ import annotations

import asyncio
import logging

from django.db import Error as DatabaseFault

from mcp_app.auth import tokens
from mcp_app.auth.authentication import RECHECK_SECONDS
from mcp_app.execution.calls.calls import RunningCalls

log = logging.getLogger("mcp.call")


class EndedConnections:
    """A periodic check of one process: it looks up the OAuth connections of running calls in the database."""

    def __init__(self, calls: RunningCalls) -> None:
        self._calls = calls
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the check on the event loop."""
        self._looking = asyncio.create_task(self._poll())

    async def close(self) -> None:
        """Stop the check."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait((self._looking,))

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(RECHECK_SECONDS)
            named = self._calls.connections()
            if not named:
                continue
            try:
                self._calls.end_connections(await tokens.aended(named))
            except DatabaseFault as error:
                log.warning("The connections of running calls could not be checked: %s", error)
