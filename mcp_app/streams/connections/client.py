"""Redis addresses, and factories for Redis clients.

There is one server at one address. Support for Sentinel or Cluster would have to be added here.

redis-py 8 changed two defaults. It sets a socket timeout of 5 seconds, which breaks blocking reads, and it
uses the reply formats of protocol 3. All clients created here set both options explicitly.
"""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.connection import SSLConnection, UnixDomainSocketConnection, parse_url
from redis.retry import Retry

TIMEOUT = 1.0
SCHEMES = ("redis://", "rediss://", "unix://")
CLUSTER = "REDIS_URL leads to a Redis Cluster, which cannot be used"
CLUSTER_REMEDY = "Give it the address of one Redis or Valkey without cluster mode (cluster-enabled no)."


def address_fault(url: str) -> str:
    """Return the reason why a URL is not the address of a single Redis, or "" if it is."""
    if not url.startswith(SCHEMES):
        return "is not the address of one Redis (redis://, rediss:// or unix://; no Sentinel, no Cluster)"
    hosts = "" if url.startswith("unix://") else urlsplit(url).netloc.rpartition("@")[2]
    if "," in hosts:
        return "names several addresses: one Redis is used, without Sentinel and without Cluster"
    if not re.fullmatch(r"(\[[^\]]*\]|[^:]*)(:\d{1,5})?", hosts):
        return "has a port that is not a number"
    return ""


def sync_client(url: str, *, blocking: bool = False) -> redis.Redis:
    """Return a thread-safe client for code without an event loop.

    ``blocking`` clients have no read timeout.
    """
    return redis.Redis.from_url(
        url,
        protocol=2,
        socket_timeout=None if blocking else TIMEOUT,
        socket_connect_timeout=TIMEOUT,
        retry=Retry(NoBackoff(), 1),
    )


def async_client(url: str, *, blocking: bool = False) -> redis.asyncio.Redis:
    """Return an asyncio client for rare commands. ``blocking`` clients have no read timeout."""
    return redis.asyncio.Redis.from_url(
        url,
        protocol=2,
        socket_timeout=None if blocking else TIMEOUT,
        socket_connect_timeout=TIMEOUT,
        retry=AsyncRetry(NoBackoff(), 1),
    )


@dataclass(frozen=True, slots=True, repr=False)
class RedisAddress:
    """Address and credentials of Redis. It has no repr, because it contains the password."""

    host: str
    port: int
    path: str
    username: str
    password: str
    database: int
    tls: ssl.SSLContext | None

    @classmethod
    def parse(cls, url: str) -> RedisAddress:
        """Parse the URL of a single Redis. Raise ValueError for any other URL."""
        if fault := address_fault(url):
            raise ValueError(f"REDIS_URL {fault}.")
        parts: dict[str, Any] = dict(parse_url(url))  # type: ignore[no-untyped-call]
        kind = parts.get("connection_class")
        return cls(
            host=parts.get("host") or "localhost",
            port=int(parts.get("port") or 6379),
            path=parts["path"] if kind is UnixDomainSocketConnection else "",
            username=parts.get("username") or "",
            password=parts.get("password") or "",
            database=int(parts.get("db") or 0),
            tls=_tls(parts) if kind is SSLConnection else None,
        )

    def login(self) -> list[tuple[str | int, ...]]:
        """Return the commands to send first on every new connection."""
        commands: list[tuple[str | int, ...]] = []
        if self.password:
            commands.append(("AUTH", *((self.username,) if self.username else ()), self.password))
        if self.database:
            commands.append(("SELECT", self.database))
        # A server that still loads its data answers this with an error, so it does not count as connected.
        commands.append(("PING",))
        return commands


def _tls(parts: dict[str, Any]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=parts.get("ssl_ca_certs"))
    if parts.get("ssl_cert_reqs") in ("none", "CERT_NONE"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif str(parts.get("ssl_check_hostname", "true")).lower() in ("false", "0", "no"):
        context.check_hostname = False
    if parts.get("ssl_certfile"):
        context.load_cert_chain(parts["ssl_certfile"], parts.get("ssl_keyfile"))
    return context
