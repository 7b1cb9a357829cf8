"""New connections to checked addresses, directly or through the configured proxy.

A name is resolved and checked for each new connection, and the connection goes to the checked address.
"""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

import httpx2

from mcp_app import conf
from mcp_app.egress import target as targets
from mcp_app.egress.policy import EgressFailed, Policy
from mcp_app.egress.target import Resolve, Target
from mcp_app.egress.wire import BrokenError, Wire, request_head

_MAX_ATTEMPTS: Final = 3
_PORTS: Final = {"http": 80, "https": 443}
REFUSED_BY_PROXY: Final = "The proxy of this server refused the connection."


@dataclass(frozen=True, slots=True)
class Proxy:
    """The configured proxy. Its repr is short, because ``headers`` may contain a password."""

    scheme: str
    host: str
    port: int
    headers: tuple[tuple[str, str], ...]

    def __repr__(self) -> str:
        return "Proxy()"


@lru_cache(maxsize=1)
def trust_store() -> ssl.SSLContext:
    """Return the system's trusted certificates. Environment variables are not read."""
    context = httpx2.create_ssl_context(trust_env=False)
    context.set_alpn_protocols(["http/1.1"])
    return context


async def proxy_for(target: Target, policy: Policy, resolve: Resolve) -> Proxy | None:
    """Return the proxy through which a target is reached, or None. Raise EgressRefused if it is forbidden."""
    proxy = conf.get().egress_proxy
    if not proxy or await targets.reach(target, policy, resolve):
        return None
    return _read(proxy)


@lru_cache(maxsize=4)
def _read(proxy: str) -> Proxy:
    url = httpx2.URL(proxy)
    user, _, password = url.userinfo.decode("ascii").partition(":")
    headers: tuple[tuple[str, str], ...] = ()
    if user or password:
        clear = f"{unquote(user)}:{unquote(password)}".encode()
        headers = (("Proxy-Authorization", f"Basic {base64.b64encode(clear).decode()}"),)
    return Proxy(url.scheme, url.host, url.port or _PORTS[url.scheme], headers)


async def dialed(
    target: Target, policy: Policy, resolve: Resolve, tls: ssl.SSLContext | None, proxy: Proxy | None
) -> Wire:
    """Open a connection for requests to a target.

    Raise EgressRefused for a forbidden address, and EgressFailed if there is no connection.
    """
    name = target.host.rstrip(".")
    context = (tls or trust_store()) if target.scheme == "https" else None
    try:
        if proxy is None:
            found = await targets.addresses(target, policy, resolve)
            return await _direct(found[:_MAX_ATTEMPTS], target.port, policy, context, name)
        return await _through(proxy, target, policy, context, name)
    except (OSError, TimeoutError, BrokenError):
        through = " through this server's proxy" if proxy else ""
        what = "secure connection" if context else "connection"
        raise EgressFailed(
            f"No {what} to the server could be made{through}. Check the address or try later.",
            sent=False,
        ) from None


async def dialed_socket(path: str, policy: Policy) -> Wire:
    """Open a connection to a unix socket of this installation. Raise EgressFailed if there is none."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(policy.connect_seconds):
            _, wire = await loop.create_unix_connection(Wire, path)
    except (OSError, TimeoutError):
        raise EgressFailed("No process of this installation answers.", sent=False) from None
    return wire


async def _direct(
    found: list[str], port: int, policy: Policy, context: ssl.SSLContext | None, name: str
) -> Wire:
    *first, last = found
    for address in first:
        try:
            return await _opened(address, port, policy, context, name, flags=socket.AI_NUMERICHOST)
        except ssl.SSLError:
            raise
        except (OSError, TimeoutError):
            continue
    return await _opened(last, port, policy, context, name, flags=socket.AI_NUMERICHOST)


async def _opened(
    host: str, port: int, policy: Policy, context: ssl.SSLContext | None, name: str, flags: int = 0
) -> Wire:
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(policy.connect_seconds):
        _, wire = await loop.create_connection(
            Wire, host, port, ssl=context, server_hostname=name if context else None, flags=flags
        )
    return wire


async def _through(
    proxy: Proxy, target: Target, policy: Policy, context: ssl.SSLContext | None, name: str
) -> Wire:
    own = trust_store() if proxy.scheme == "https" else None
    wire = await _opened(proxy.host, proxy.port, policy, own, proxy.host)
    if context is None:
        return wire
    secured: asyncio.Transport | None = None
    try:
        async with asyncio.timeout(policy.connect_seconds):
            await _tunnel(wire, proxy, f"{bracketed(name)}:{target.port}")
            loop = asyncio.get_running_loop()
            secured = await loop.start_tls(wire.transport, wire, context, server_hostname=name)
    finally:
        if secured is None:
            wire.abort()
    if secured is None:
        raise BrokenError
    wire.transport = secured
    return wire


async def _tunnel(wire: Wire, proxy: Proxy, place: str) -> None:
    headers = [("Host", place), ("Accept", "*/*"), *proxy.headers]
    response = wire.ask(request_head("CONNECT", place, headers), has_body=False)
    await response.head()
    if not 200 <= response.status < 300:
        raise EgressFailed(REFUSED_BY_PROXY, sent=False)
    wire.leave(response)


def bracketed(host: str) -> str:
    """Return a host as it is written in URLs."""
    return f"[{host}]" if ":" in host else host
