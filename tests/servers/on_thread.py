"""A scripted server on a thread, for tests without an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.unit.egress.sites import Handle, KeptSite, serve_kept


@contextmanager
def on_thread(handle: Handle) -> Iterator[tuple[KeptSite, asyncio.AbstractEventLoop]]:
    """Answer requests with ``handle`` until the end of the block. Yield the site and its event loop."""
    loop, ready, stop = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
    found: list[KeptSite] = []

    async def serve() -> None:
        async with serve_kept(handle) as site:
            found.append(site)
            ready.set()
            await stop.wait()

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield found[0], loop
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
