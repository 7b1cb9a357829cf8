"""The stdio server of one process, from its first byte to its last."""

from __future__ import annotations

import asyncio
import signal

from mcp_app import conf
from mcp_app.auth.principal import Principal
from mcp_app.process import Process
from mcp_app.protocol.messages.server import ENDPOINT
from mcp_app.streams.gateway import Streams
from mcp_app.transports.stdio.pipes import Pipes
from mcp_app.transports.stdio.server import StdioServer


async def serve(principal: Principal, path: str = ENDPOINT) -> None:
    """Serve the client on standard input and output until its end of file, SIGTERM or SIGINT."""
    settings = conf.get()
    pipes = Pipes()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, pipes.end)
    url = settings.redis_url
    streams = Streams.connect(url, settings) if url else Streams.in_memory(settings)
    process = Process(streams, settings)
    await process.start()
    try:
        await StdioServer(process, principal, pipes, path).run()
    finally:
        await process.close()
