"""Reading the lists of a server again when it reports a change during a call."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import Final

from mcp_app.catalogue.sources.upstream import known
from mcp_app.catalogue.upstreams.refreshing import NEEDS_ACCOUNT, refresh
from mcp_app.database.queries import thread_connection
from mcp_app.models import Upstream
from mcp_app.protocol.client.faults import UpstreamFault
from mcp_app.streams.blocking import shared_values

# A burst of changes is read once.
SETTLE_SECONDS: Final = 2.0
# All processes together read the lists of a server at most once in this time.
LEAST_SECONDS: Final = 10.0

log = logging.getLogger("mcp.upstream")
# Tasks that have not begun to read, by server, and all tasks.
_waiting: dict[str, asyncio.Task[None]] = {}
_reading: set[asyncio.Task[None]] = set()


def start() -> None:
    """Follow the changes that servers report to this process."""
    if follow not in known.on_list_change:
        known.on_list_change.append(follow)


def follow(name: str) -> None:
    """Read the lists of a server in a moment. Called on an event loop."""
    waiting = _waiting.get(name)
    if waiting is None or waiting.done():
        task = _waiting[name] = asyncio.get_running_loop().create_task(_follow(name))
        _reading.add(task)
        task.add_done_callback(_reading.discard)


async def _follow(name: str) -> None:
    await asyncio.sleep(SETTLE_SECONDS)
    lock, holder = f"upstream-follow/{name}", os.urandom(8).hex()
    while True:
        if await asyncio.to_thread(shared_values.acquire, lock, holder, LEAST_SECONDS):
            break
        await asyncio.sleep(LEAST_SECONDS / 4)
    _waiting.pop(name, None)  # A change from now on needs another reading.
    await asyncio.to_thread(_read, name)


@thread_connection()
def _read(name: str) -> None:
    row = Upstream.objects.filter(name=name, enabled=True).exclude(NEEDS_ACCOUNT).first()
    if row is None:
        return
    try:
        refresh(upstream=row, actor=None)
    except UpstreamFault as fault:
        log.warning("The lists of the upstream server %s were not read: it %s", name, fault)
