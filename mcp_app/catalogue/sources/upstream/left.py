"""The end of background calls that were cancelled while no code ran for them, at their servers.

Such a call waits for answers to questions of its server. A request that is still open is cancelled by the
process that holds it, and a task by the process that cancels the call.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from asgiref.sync import async_to_sync

from mcp_app.catalogue.sources.upstream.known import known
from mcp_app.upstreams import open_calls, tasks
from mcp_app.upstreams.caller import Caller
from mcp_app.upstreams.server import Account

# Pages wait for the servers, so not longer than this.
SECONDS: Final = 5.0

log = logging.getLogger("mcp.upstream")


async def cancel(call: str) -> None:
    """Cancel what a background call has left at another server. Calls of other tools have left nothing."""
    await asyncio.to_thread(open_calls.abandon, call)
    left = await tasks.left_of(call)
    found = None if left is None else await known(left.server)
    if left is None or found is None:
        return
    account = None if left.account is None else Account(*left.account)
    server = replace(found.server, account=account)
    await tasks.cancel(server, Caller(left.caller, left.capabilities), left, call)


def cancel_now(calls: Iterable[str]) -> None:
    """Cancel what background calls have left at other servers, for code without an event loop."""
    async_to_sync(_cancel_all)([*calls])


async def _cancel_all(calls: list[str]) -> None:
    try:
        async with asyncio.timeout(SECONDS):
            await asyncio.gather(*map(cancel, calls))
    except TimeoutError:
        log.info("Some servers did not confirm in time that calls are cancelled.")
