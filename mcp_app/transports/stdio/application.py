"""The stdio server of one process, from its first byte to its last."""

from __future__ import annotations

import asyncio
import signal

from mcp_app import conf
from mcp_app.auth.principal import Principal
from mcp_app.dispatcher import Dispatcher
from mcp_app.streams.gateway import Streams
from mcp_app.transports.stdio.pipes import Pipes
from mcp_app.transports.stdio.server import StdioServer


async def serve(principal: Principal) -> None:
    """Serve the client on standard input and output until it ends its input or SIGTERM comes."""
    settings = conf.get()
    pipes = Pipes()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, pipes.end)
    url = settings.redis_url
    streams = Streams.connect(url, settings) if url else Streams.in_memory(settings)
    dispatcher = Dispatcher(streams, settings)
    await dispatcher.start()
    try:
        await StdioServer(dispatcher, principal, pipes).run()
    finally:
        await dispatcher.close()
