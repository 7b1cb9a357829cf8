"""Connections to checked addresses, and the pools that keep them open between requests.

A name is resolved and checked for each new connection, and the connection goes to the checked address. An
open connection stays with that address. Pools are separate for each event loop, origin and credential, so
that a forked process or another credential never uses an open connection.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncGenerator, Iterable
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final
from urllib.parse import unquote
from weakref import WeakKeyDictionary

import httpcore2
import httpx2

from mcp_app import conf
from mcp_app.egress import target as targets
from mcp_app.egress.policy import Policy
from mcp_app.egress.target import Resolve, Target

# Servers often close idle connections after a minute, and some after 15 seconds.
IDLE_SECONDS: Final = 10.0
MAX_POOLS: Final = 200
_MAX_ATTEMPTS: Final = 3

# At DEBUG the library logs the headers of answers, in which a server may repeat a secret. Only projects that
# configure this logger themselves get them.
if (_library := logging.getLogger("httpcore2")).level == logging.NOTSET:
    _library.setLevel(logging.INFO)


@dataclass(slots=True)
class Progress:
    """The progress of one request: whether it opened a connection, and whether its first byte left."""

    connected: bool = False
    sent: bool = False


PROGRESS: ContextVar[Progress | None] = ContextVar("egress_progress", default=None)


class _Stream(httpcore2.AsyncNetworkStream):
    """A connection that records the first byte of each request.

    The library would ask the system about each idle connection of the pool, twice for each request. Here only
    the connection that is used is asked, just before its first byte.
    """

    def __init__(self, inner: httpcore2.AsyncNetworkStream) -> None:
        self._inner = inner
        self._is_used = False
        self.read = inner.read  # type: ignore[method-assign]
        self.aclose = inner.aclose  # type: ignore[method-assign]

    def get_extra_info(self, info: str) -> Any:
        return False if info == "is_readable" else self._inner.get_extra_info(info)

    async def write(
        self,
        buffer: bytes,
        timeout: float | None = None,  # noqa: ASYNC109 - as in the library
    ) -> None:
        if not buffer:
            return
        if (progress := PROGRESS.get()) is not None and not progress.sent:
            if self._is_used and self._inner.get_extra_info("is_readable"):
                # The server has closed the connection. The pool takes another one.
                raise httpcore2.ConnectionNotAvailable
            progress.sent = True
        self._is_used = True
        await self._inner.write(buffer, timeout)

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - as in the library
    ) -> httpcore2.AsyncNetworkStream:
        return _Stream(await self._inner.start_tls(ssl_context, server_hostname, timeout))


class _Network(httpcore2.AsyncNetworkBackend):
    """A network that connects to checked addresses of one target, whatever name the library asks for.

    Without ``target`` the address is the configured proxy, which is not checked.
    """

    def __init__(self, target: Target | None, policy: Policy, resolve: Resolve) -> None:
        self._target, self._policy, self._resolve = target, policy, resolve
        self._tcp = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - as in the library
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        if (progress := PROGRESS.get()) is not None:
            progress.connected = True
        found = [host]
        if self._target is not None:
            found = await targets.addresses(self._target, self._policy, self._resolve)
        *first, last = found[:_MAX_ATTEMPTS]
        for address in first:
            with suppress(httpcore2.ConnectError, httpcore2.ConnectTimeout):
                return _Stream(await self._tcp.connect_tcp(address, port, timeout))
        return _Stream(await self._tcp.connect_tcp(last, port, timeout))


@lru_cache(maxsize=1)
def trust_store() -> ssl.SSLContext:
    """Return the system's trusted certificates. Environment variables are not read."""
    return httpx2.create_ssl_context(trust_env=False)


def new_pool(
    target: Target, policy: Policy, resolve: Resolve, tls: ssl.SSLContext | None, proxy: str
) -> httpcore2.AsyncConnectionPool:
    """Return a pool for one target, through the proxy if one is given."""
    context = tls or trust_store()
    if not proxy:
        network = _Network(target, policy, resolve)
        return httpcore2.AsyncConnectionPool(
            context, max_connections=None, keepalive_expiry=IDLE_SECONDS, network_backend=network
        )
    url = httpx2.URL(proxy)
    user, _, password = url.userinfo.decode("ascii").partition(":")
    return httpcore2.AsyncHTTPProxy(
        httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=b"/"),
        proxy_auth=(unquote(user).encode(), unquote(password).encode()) if user or password else None,
        ssl_context=context,
        proxy_ssl_context=trust_store() if url.scheme == "https" else None,
        max_connections=None,
        keepalive_expiry=IDLE_SECONDS,
        network_backend=_Network(None, policy, resolve),
    )


async def proxy_for(target: Target, policy: Policy, resolve: Resolve) -> str:
    """Return the proxy through which a target is reached, or "". Raise EgressRefused if it is forbidden."""
    proxy = conf.get().egress_proxy
    if not proxy:
        return ""
    return "" if await targets.reach(target, policy, resolve) else proxy


@dataclass(slots=True)
class _Pool:
    pool: httpcore2.AsyncConnectionPool
    users: int = 0
    closing: asyncio.TimerHandle | None = None


@dataclass(slots=True, weakref_slot=True)
class Pools:
    """The open pools of one event loop, least recently used first, and the requests to each origin."""

    pools: dict[Any, _Pool] = field(default_factory=dict)
    turns: dict[tuple[str, str, int], asyncio.Semaphore] = field(default_factory=dict)
    end: AsyncGenerator[None] | None = None
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def turn(self, target: Target, policy: Policy) -> asyncio.Semaphore:
        """Return the semaphore that bounds the requests to the target's origin at once."""
        origin = (target.scheme, target.host, target.port)
        found = self.turns.get(origin)
        if found is None:
            found = self.turns[origin] = asyncio.Semaphore(policy.concurrent)
            while len(self.turns) > MAX_POOLS and not next(iter(self.turns.values())).locked():
                del self.turns[next(iter(self.turns))]
        return found

    def acquire(self, key: Any, make: Any) -> _Pool:
        """Return the pool for ``key``, and keep it open until it is released."""
        found = self.pools.pop(key, None) or _Pool(make())
        self.pools[key] = found
        found.users += 1
        if found.closing is not None:
            found.closing.cancel()
            found.closing = None
        return found

    def release(self, key: Any, used: _Pool) -> None:
        """Record the end of a request. The pool closes unless it is used again within IDLE_SECONDS."""
        used.users -= 1
        if used.users:
            return
        loop = asyncio.get_running_loop()
        used.closing = loop.call_later(IDLE_SECONDS, self._close, key)
        if len(self.pools) > MAX_POOLS:
            idle = next((each for each, pool in self.pools.items() if not pool.users), None)
            if idle is not None:
                self._close(idle)

    def _close(self, key: Any) -> None:
        closed = self.pools.pop(key)
        if closed.closing is not None:
            closed.closing.cancel()
        task = asyncio.get_running_loop().create_task(closed.pool.aclose())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def aclose(self) -> None:
        """Close all connections."""
        while self.pools:
            _, closed = self.pools.popitem()
            if closed.closing is not None:
                closed.closing.cancel()
            await closed.pool.aclose()


_BY_LOOP: WeakKeyDictionary[asyncio.AbstractEventLoop, Pools] = WeakKeyDictionary()


async def pools() -> Pools:
    """Return the pools of the running event loop."""
    loop = asyncio.get_running_loop()
    found = _BY_LOOP.get(loop)
    if found is None:
        found = _BY_LOOP[loop] = Pools()
        found.end = _closed_with_loop(found)
        await anext(found.end)
    return found


async def _closed_with_loop(opened: Pools) -> AsyncGenerator[None]:
    # An event loop closes its asynchronous generators before it ends.
    try:
        yield
    finally:
        await opened.aclose()
