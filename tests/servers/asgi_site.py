"""An ASGI application on a loopback socket, in the event loop of a test."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import Any

import uvicorn


class _Server(uvicorn.Server):
    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        return nullcontext()


@asynccontextmanager
async def served(application: Any, **options: Any) -> AsyncIterator[str]:
    """Serve an application until the end of the block, and yield its origin."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    options = {"lifespan": "off", "log_level": "warning", "timeout_graceful_shutdown": 1, **options}
    server = _Server(uvicorn.Config(application, **options))
    task = asyncio.create_task(server.serve(sockets=[listening]))
    while not server.started:
        assert not task.done()
        await asyncio.sleep(0)
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
        listening.close()
