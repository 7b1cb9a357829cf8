"""A web process: uvicorn with additional limits, on the socket that the supervisor has opened."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import socket
from functools import partial
from typing import Any, cast

import uvicorn

from mcp_app.database.forking import close_in_children
from mcp_app.foreign_code import outlast
from mcp_app.observability.logs import PROCESS
from mcp_app.streams.blocking.server_facts import cluster_fault
from mcpsite import environment
from mcpsite.http.connection import BoundedConnection
from mcpsite.http.quick import QuickAnswers
from mcpsite.processes.own_code import load_all
from mcpsite.supervised import permits, signs_of_life

BACKLOG = 2048
MAX_DESCRIPTORS = 65_536
TCP_USER_TIMEOUT_MS = 30_000
SWEEP_SECONDS = 2.0
KEEP_ALIVE_SECONDS = 75
GRACEFUL_SECONDS = 4
# Deadline for calls in a process with outdated code. No call may run for this long.
LEAVE_SECONDS = 960.0
# Messages from the pages of the console are short.
WEBSOCKET_BYTES = 16 * 1024


class CannotListen(Exception):
    """Raised if the address cannot be used. The text has the remedy."""


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket for all web processes. Raise CannotListen with the remedy."""
    host = host.strip("[]")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise CannotListen(f"HOST={host} is not an address of this machine: {error}. Set HOST.") from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            # Accepted connections inherit the option. Without it, a client whose network failed would stay
            # "connected" for hours.
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, TCP_USER_TIMEOUT_MS)
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise CannotListen(_why(host, port, error)) from None
    listening.setblocking(False)
    return listening


def _why(host: str, port: int, error: OSError) -> str:
    if isinstance(error, PermissionError):
        return f"Port {port} needs more rights than this user has: set PORT to a number above 1023."
    if error.errno in (98, 48):  # EADDRINUSE on Linux and on the BSDs
        return f"Port {port} of {host} is taken by another program: stop it, or set PORT (PORT={port + 1})."
    return f"Cannot listen on {host} port {port}: {error.strerror}. Set HOST and PORT."


def websocket(**facts: Any) -> asyncio.Protocol:
    """Create uvicorn's WebSocket protocol. Its module is imported with the first connection."""
    from uvicorn.protocols.websockets.wsproto_impl import WSProtocol

    return WSProtocol(**facts)


class Server(uvicorn.Server):
    """A uvicorn server that sends heartbeats, limits slow senders, and ends event streams before it stops."""

    # The time by which the process must exit after another process has taken over. 0 before that.
    leaves_by = 0.0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening, and then notify the supervisor."""
        allow_many_connections()
        close_in_children(sockets or ())
        await super().startup(sockets)
        spare_the_collector()
        self.answer_quickly()
        if permits.needed:
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self.leave)
        signs_of_life.give()

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a stop request, even if application code on the event loop tries to exit."""
        with asyncio.Runner(loop_factory=self.config.get_loop_factory()) as runner:
            loop = runner.get_loop()
            serving = loop.create_task(self.serve(sockets))
            outlast(partial(loop.run_until_complete, serving), serving.done)

    def answer_quickly(self) -> None:
        """Enable quick answers. Call this once the service runs."""
        from mcp_app.transports.application import mcp
        from mcp_app.transports.streamable_http.shortcut.quick_endpoint import QuickEndpoint

        endpoint = mcp.endpoint
        if isinstance(endpoint, QuickEndpoint):
            QuickAnswers.quick = staticmethod(endpoint.quick)
            QuickAnswers.quick_delete = staticmethod(endpoint.quick_delete)

    async def on_tick(self, counter: int) -> bool:
        """Send heartbeats and close slow senders, ten times a second. Return True to stop."""
        if counter % 10 == 0:
            signs_of_life.give()
        if counter % int(SWEEP_SECONDS * 10) == 0:
            self.close_slow_senders()
        return await super().on_tick(counter) or (self.leaves_by > 0 and self.has_left())

    def close_slow_senders(self) -> None:
        """Close connections whose headers arrive slowly (408) or that have been idle for too long."""
        now = asyncio.get_running_loop().time()
        for connection in list(self.server_state.connections):
            if isinstance(connection, BoundedConnection):
                connection.refuse_if_slow(now)
                connection.close_if_idle(now)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop. Close event streams first, because open streams would delay the stop until the deadline."""
        from mcpsite.asgi import application

        application.drain()
        await super().shutdown(sockets)

    def leave(self) -> None:
        """Finish running calls and then exit, because another process has taken over."""
        self.leaves_by = asyncio.get_running_loop().time() + LEAVE_SECONDS

    def has_left(self) -> bool:
        """Return True once no call runs or the deadline has passed. New work is not accepted."""
        from mcp_app.transports.application import mcp

        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        mcp.leave()
        return not mcp.running or asyncio.get_running_loop().time() > self.leaves_by


def allow_many_connections() -> None:
    """Raise the limit of file descriptors as far as allowed, because each open event stream needs one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def spare_the_collector() -> None:
    """Exclude the objects loaded at start from garbage collection."""
    gc.collect()
    gc.freeze()


def configuration(settings: environment.Environment) -> uvicorn.Config:
    """Return the configuration of uvicorn: a fast parser and event loop, no access log, no server header."""
    options: dict[str, Any] = {}
    if settings.trusted_proxies:
        options["forwarded_allow_ips"] = list(settings.trusted_proxies)
    return uvicorn.Config(
        "mcpsite.asgi:application",
        loop="auto",
        http=QuickAnswers,
        ws=cast("Any", websocket),
        ws_max_size=WEBSOCKET_BYTES,
        ws_per_message_deflate=False,
        lifespan="on",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.trusted_proxies),
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACEFUL_SECONDS,
        **options,
    )


def main() -> None:
    """Serve on the socket from the supervisor. Without a supervisor, open a new one."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mcpsite.settings")
    os.environ.setdefault(PROCESS, "web")
    settings = environment.read()
    if refused := cluster_fault(settings.redis_url):
        raise environment.WrongSettings(refused)
    inherited = os.environ.get("LISTEN_FD")
    listening = socket.socket(fileno=int(inherited)) if inherited else bind(settings.host, settings.port)
    load_all(settings)
    Server(configuration(settings)).run([listening])


if __name__ == "__main__":
    try:
        main()
    except (environment.WrongSettings, CannotListen) as wrong:
        raise SystemExit(str(wrong)) from None
