"""Answers of other servers, and the bounded reading of their bodies."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final

from mcp_app.egress.policy import EgressFailed, EgressRefused, Policy
from mcp_app.egress.wire import BrokenError, Response

ACCEPT_ENCODING: Final = "gzip"
_GZIP: Final = zlib.MAX_WBITS | 16
# Each member of a gzip file copies the rest of its chunk, so many tiny ones would cost too much.
_MAX_MEMBERS: Final = 1_000
_WITHOUT_BODY: Final = frozenset({204, 205, 304})
BROKE_OFF: Final = "The server broke off or did not speak HTTP. Try again later."

OnContent = Callable[[bytes], None]


class Answer:
    """An answer whose body is still arriving. Names of ``headers`` are in lower case.

    ``on_content`` gets the decoded body as it is read.
    """

    __slots__ = (
        "_fields",
        "_method",
        "_policy",
        "_response",
        "_size",
        "charset",
        "content_type",
        "headers",
        "on_content",
        "status",
    )

    def __init__(self, method: str, response: Response, policy: Policy) -> None:
        self._method, self._response, self._policy = method, response, policy
        self._size = 0
        self.on_content: OnContent | None = None
        self.status = response.status
        self.headers = tuple(response.headers)
        fields: dict[str, str] = {}
        for name, value in self.headers:
            fields[name] = f"{fields[name]}, {value}" if name in fields else value
        self._fields = fields
        kind, _, parameters = fields.get("content-type", "").partition(";")
        self.content_type = kind.strip().lower()
        self.charset = ""
        if parameters:
            _, _, charset = parameters.lower().partition("charset=")
            self.charset = charset.partition(";")[0].strip(" \"'")

    def header(self, name: str) -> str | None:
        """Return a header by its name in lower case. Repeated headers are joined with commas."""
        return self._fields.get(name)

    async def read(self, limit_bytes: int | None = None) -> bytes:
        """Return the whole decoded body. Raise EgressRefused if it is longer than the limit."""
        if self._has_no_body:
            return b""
        raw, inflating = self._bounds(limit_bytes)
        parts: list[bytes] = []
        # Not over ``chunks``, because each asynchronous generator costs more than a short body.
        while chunk := await self._next(raw):
            content = (chunk,) if inflating is None else (*inflating.feed(chunk),)
            parts += content
            if self.on_content is not None:
                self.on_content(b"".join(content))
        if inflating is not None:
            inflating.end()
        return b"".join(parts)

    async def chunks(self, limit_bytes: int | None = None) -> AsyncIterator[bytes]:
        """Yield the decoded body as it arrives.

        Raise EgressRefused if the body is longer than the limit or in a coding that was not requested, and
        EgressFailed if the connection breaks or the compressed data is damaged.
        """
        if self._has_no_body:
            return
        raw, inflating = self._bounds(limit_bytes)
        while chunk := await self._next(raw):
            for data in (chunk,) if inflating is None else inflating.feed(chunk):
                if self.on_content is not None:
                    self.on_content(data)
                yield data
        if inflating is not None:
            inflating.end()

    @property
    def _has_no_body(self) -> bool:
        return self._method == "HEAD" or self.status in _WITHOUT_BODY

    def _bounds(self, limit_bytes: int | None) -> tuple[int, _Inflating | None]:
        """Return the limit of undecoded bytes, and the decoder of a compressed body."""
        most = self._policy.max_bytes if limit_bytes is None else min(limit_bytes, self._policy.max_bytes)
        raw = min(self._policy.max_raw_bytes, most)
        declared = self.header("content-length") or ""
        # Only one coding is accepted: a chain of codings can turn a small answer into endless work.
        coding = (self._fields.get("content-encoding") or "identity").strip().lower()
        if coding not in ("identity", "gzip", "x-gzip"):
            raise EgressRefused(
                "The answer came in a content coding that was not asked for, so it was not read."
            )
        if declared.isdigit() and int(declared[:20]) > raw:
            raise _too_large(raw)
        return raw, None if coding == "identity" else _Inflating(most)

    async def _next(self, most: int) -> bytes:
        try:
            chunk = await self._response.read()
        except BrokenError:
            raise EgressFailed(BROKE_OFF) from None
        self._size += len(chunk)
        if self._size > most:
            raise _too_large(most)
        return chunk


class _Inflating:
    """The decoder of all members of a gzip file (RFC 1952 section 2.2)."""

    __slots__ = ("_decoder", "_members", "_most", "_size")

    def __init__(self, most: int) -> None:
        self._decoder = zlib.decompressobj(_GZIP)
        self._most, self._size, self._members = most, 0, 1

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the content of the next bytes of the file."""
        while data:
            if self._decoder.eof:
                self._members += 1
                self._decoder = zlib.decompressobj(_GZIP)
            if self._members > _MAX_MEMBERS:
                raise EgressRefused("The answer's compressed body has too many parts.")
            try:
                content = self._decoder.decompress(data, self._most - self._size + 1)
            except zlib.error:
                raise EgressFailed("The answer's compressed body is damaged. Try again later.") from None
            data = self._decoder.unused_data
            self._size += len(content)
            if self._size > self._most:
                raise _too_large(self._most)
            yield content

    def end(self) -> None:
        """Raise EgressFailed if the file is not complete."""
        if not self._decoder.eof:
            raise EgressFailed("The answer's compressed body ended early. Try again later.")


def _too_large(limit: int) -> EgressRefused:
    return EgressRefused(f"The answer is larger than the {limit // 1024} KiB that are read. Ask for less.")
