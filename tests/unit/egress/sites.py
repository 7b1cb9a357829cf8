"""Small scripted web servers on loopback for fetch tests, and resolvers backed by a table."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_network

from mcp_app.egress import Policy

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]
LOOPBACK = frozenset({ip_network("127.0.0.1/32")})


@dataclass
class Site:
    """A running server with its port and the request heads it received."""

    port: int = 0
    requests: list[str] = field(default_factory=list)
    connections: int = 0

    def policy(self, **changes: object) -> Policy:
        """Return a policy that allows only this site."""
        return Policy(**{"ports": frozenset({self.port}), "allow": LOOPBACK, "seconds": 5.0, **changes})

    def header(self, name: str, request: int = -1) -> str | None:
        lines = [line.partition(": ") for line in self.requests[request].split("\r\n")[1:]]
        return next((value for key, _, value in lines if key.lower() == name), None)


def page(
    body: bytes = b"<p>hello</p>", *headers: str, status: str = "200 OK", kind: str = "text/html"
) -> Answer:
    head = "\r\n".join(
        [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *headers]
    )
    return raw(head.encode() + b"\r\n\r\n" + body)


def redirect(location: str, status: str = "302 Found") -> Answer:
    return raw(f"HTTP/1.1 {status}\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode())


def raw(data: bytes) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()

    return answer


@asynccontextmanager
async def serve(
    *answers: Answer, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[Site]:
    """Answer the n-th connection with the n-th answer, and later connections with the last one."""
    site = Site()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answer = answers[min(site.connections, len(answers) - 1)]
        site.connections += 1
        try:
            site.requests.append((await reader.readuntil(b"\r\n\r\n")).decode("latin-1"))
            await answer(writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connected, host, 0, ssl=tls)
    site.port = server.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        server.close()


class Names:
    """A resolver backed by a table; the n-th lookup of a name returns its n-th list of addresses."""

    def __init__(self, **table: list[list[str]]) -> None:
        self.table = {name.replace("_", "."): answers for name, answers in table.items()}
        self.lookups: list[tuple[str, int]] = []

    async def __call__(self, host: str, port: int) -> list[str]:
        answers = self.table.get(host)
        if answers is None:
            raise OSError("unknown name")
        seen = sum(1 for name, _ in self.lookups if name == host)
        self.lookups.append((host, port))
        return answers[min(seen, len(answers) - 1)]


@dataclass(frozen=True)
class Heard:
    """One received request. ``connection`` counts from 0."""

    connection: int
    line: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name), None)


Handle = Callable[[Heard, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class KeptSite:
    """A server that keeps its connections open. ``closed`` are the connections that the client closed."""

    port: int = 0
    requests: list[Heard] = field(default_factory=list)
    connections: int = 0
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    def url(self, path: str = "/", host: str = "site.test") -> str:
        return f"http://{host}:{self.port}{path}"

    def policy(self, **changes: object) -> Policy:
        usual = {"ports": frozenset({self.port}), "allow": LOOPBACK, "seconds": 5.0, "content_types": None}
        return Policy(**{**usual, "max_redirects": 0, **changes})


async def read_request(reader: asyncio.StreamReader, connection: int) -> Heard:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    line, *lines = head.rstrip("\r\n").split("\r\n")
    headers = tuple((name, value) for name, _, value in (each.partition(": ") for each in lines))
    size = int(next((value for name, value in headers if name.lower() == "content-length"), "0"))
    return Heard(connection, line, headers, await reader.readexactly(size))


@asynccontextmanager
async def serve_kept(
    handle: Handle, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[KeptSite]:
    """Answer each request of each connection with ``handle``."""
    site = KeptSite()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = site.connections
        site.connections += 1
        try:
            while not writer.is_closing():
                request = await read_request(reader, number)
                site.requests.append(request)
                await handle(request, writer)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            site.closed.set()
        except asyncio.CancelledError:
            pass  # The test and its event loop have ended.
        finally:
            writer.close()

    server = await asyncio.start_server(connected, host, 0, ssl=tls)
    site.port = server.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        server.close()


def response(
    body: bytes = b"{}", *headers: str, status: str = "200 OK", kind: str = "application/json"
) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def always(data: bytes) -> Handle:
    """Return a handler that gives every request the same answer."""

    async def handle(request: Heard, writer: asyncio.StreamWriter) -> None:
        writer.write(data)

    return handle
