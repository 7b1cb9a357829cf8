"""Sends one hostile case over a bare connection, reads the response strictly, and judges it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass

from tests.clients.raw_wire import NotHttp, is_chunked, parse_head
from tests.fuzz.cases import Case

ANSWER_SECONDS = 8.0
# The wait for a response to an incomplete request; silence is correct then.
PARTIAL_SECONDS = 0.15
STREAM_SECONDS = 4.0
DOCUMENTED = {
    200, 202, 204, 301, 302, 400, 401, 403, 404, 405, 406, 408, 409, 411, 413, 414, 415, 421, 429, 431, 503,
}  # fmt: skip
BODILESS = {202, 204}


class ConnectionGone(Exception):
    """The server closed the connection without a response."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One complete response; the body of a stream is the part received in its time."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def is_stream(self) -> bool:
        return self.headers.get("content-type", "").startswith("text/event-stream")


class Line:
    """One connection that is opened when needed and kept as long as the server keeps it.

    ``origin`` is the address of this machine that it comes from; the system chooses unless it is given.
    """

    def __init__(self, host: str, port: int, origin: str = "") -> None:
        self.address = (host, port)
        self.origin = (origin, 0) if origin else None
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def exchange(self, case: Case) -> Reply | None:
        """Return the response, or None; raise NotHttp, TimeoutError or ConnectionGone."""
        kept = self.writer is not None
        try:
            return await self._exchange(case)
        except (ConnectionGone, ConnectionError, BrokenPipeError):
            await self.close()
            if kept:
                # The server may have closed the idle connection: this is not a response to the case.
                return await self.exchange(case)
            if case.complete:
                raise
            return None

    async def _exchange(self, case: Case) -> Reply | None:
        if self.writer is None or self.reader is None:
            self.reader, self.writer = await asyncio.open_connection(
                *self.address, limit=8 * 1024 * 1024, local_addr=self.origin
            )
        self.writer.write(case.data)
        patience = ANSWER_SECONDS if case.complete else PARTIAL_SECONDS
        try:
            async with asyncio.timeout(patience):
                reply = await self._read(case.method)
        except TimeoutError:
            await self.close()
            if case.complete:
                raise
            return None
        closing = reply.headers.get("connection", "").lower() == "close"
        if closing or reply.is_stream or not case.complete:
            await self.close()
        return reply

    async def _read(self, method: str) -> Reply:
        assert self.reader is not None
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as cut:
            if cut.partial:
                raise NotHttp(f"a cut response head: {cut.partial[:200]!r}") from None
            raise ConnectionGone from None
        status, headers = parse_head(head)
        stream = headers.get("content-type", "").startswith("text/event-stream")
        if method == "HEAD" or status in (204, 304):
            return Reply(status, headers, b"")
        if stream:
            return Reply(status, headers, await self._stream(method))
        return Reply(status, headers, await self._body(headers))

    async def _body(self, headers: dict[str, str]) -> bytes:
        assert self.reader is not None
        if is_chunked(headers):
            return b"".join([chunk async for chunk in self._chunks()])
        if "content-length" in headers:
            return await self.reader.readexactly(int(headers["content-length"]))
        return await self.reader.read(8 * 1024 * 1024)

    async def _stream(self, method: str) -> bytes:
        """Return the part of a stream received in its time; leave a GET stream immediately."""
        found = b""
        if method == "GET":
            return found
        try:
            async with asyncio.timeout(STREAM_SECONDS):
                async for chunk in self._chunks():
                    found += chunk
        except TimeoutError:
            pass
        return found

    async def _chunks(self) -> AsyncIterator[bytes]:
        assert self.reader is not None
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            chunk = await self.reader.readexactly(size + 2)
            if not chunk.endswith(b"\r\n"):
                raise NotHttp("a chunk does not end with CRLF")
            yield chunk[:-2]
        await self.reader.readuntil(b"\r\n")

    async def close(self) -> None:
        writer, self.writer, self.reader = self.writer, None, None
        if writer is not None:
            writer.close()
            with suppress(ConnectionError, BrokenPipeError):
                await writer.wait_closed()


def problem(case: Case, reply: Reply | None) -> str | None:
    """Return the problem of a response, or None."""
    if reply is None:
        return None
    # Redis runs and no limit is reached, so only /readyz may return 503: no worker runs here.
    if reply.status == 503 and b"/readyz" not in case.data:
        return "503"
    if reply.status not in DOCUMENTED:
        return f"undocumented status {reply.status}"
    if reply.status == 405 and "allow" not in reply.headers:
        return "405 without Allow"
    if reply.status in BODILESS and reply.body:
        return f"{reply.status} with a body"
    if b"Traceback" in reply.body or b'File "' in reply.body:
        return "internals in the body"
    return None if reply.is_stream else _json_problem(case, reply)


def _json_problem(case: Case, reply: Reply) -> str | None:
    """Check that a JSON body is JSON-RPC: a result or error object, or an array of them for a batch."""
    if case.method == "HEAD" or not reply.headers.get("content-type", "").startswith("application/json"):
        return None
    try:
        value = json.loads(reply.body)
    except ValueError:
        return "a JSON answer that is no JSON"
    members = value if isinstance(value, list) else [value]
    if b"/mcp" not in case.data.split(b"\r\n", 1)[0]:
        return None
    for member in members:
        if not isinstance(member, dict) or member.get("jsonrpc") != "2.0":
            return "a JSON answer that is no JSON-RPC"
        if ("result" in member) == ("error" in member) or ("id" in member and member["id"] is None):
            return "a malformed JSON-RPC answer"
        if "error" in member and member["error"].get("code") == -32603 and reply.status != 503:
            return "an internal error"
    return None
