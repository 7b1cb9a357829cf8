"""Answers of other servers, and the bounded reading of their bodies."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from typing import Final

from mcp_app.egress.policy import EgressFailed, EgressRefused, Policy
from mcp_app.egress.wire import BrokenError, Response

ACCEPT_ENCODING: Final = "gzip"
_GZIP: Final = zlib.MAX_WBITS | 16
# Each member of a gzip file copies the rest of its chunk, so many tiny ones would cost too much.
_MAX_MEMBERS: Final = 1_000
_WITHOUT_BODY: Final = frozenset({204, 205, 304})
BROKE_OFF: Final = "The server broke off or did not speak HTTP. Try again later."


class Answer:
    """An answer whose body is still arriving. Names of ``headers`` are in lower case."""

    __slots__ = (
        "_method",
        "_policy",
        "_response",
        "charset",
        "content_type",
        "headers",
        "status",
    )

    def __init__(self, method: str, response: Response, policy: Policy) -> None:
        self._method, self._response, self._policy = method, response, policy
        self.status = response.status
        self.headers = tuple(response.headers)
        name, _, parameters = (self.header("content-type") or "").partition(";")
        self.content_type = name.strip().lower()
        _, _, charset = parameters.lower().partition("charset=")
        self.charset = charset.partition(";")[0].strip(" \"'")

    def header(self, name: str) -> str | None:
        """Return a header by its name in lower case. Repeated headers are joined with commas."""
        found = [value for key, value in self.headers if key == name]
        return ", ".join(found) if found else None

    async def read(self, limit_bytes: int | None = None) -> bytes:
        """Return the whole decoded body. Raise EgressRefused if it is longer than the limit."""
        return b"".join([chunk async for chunk in self.chunks(limit_bytes)])

    async def chunks(self, limit_bytes: int | None = None) -> AsyncIterator[bytes]:
        """Yield the decoded body as it arrives.

        Raise EgressRefused if the body is longer than the limit or in a coding that was not requested, and
        EgressFailed if the connection breaks or the compressed data is damaged.
        """
        most = self._policy.max_bytes if limit_bytes is None else min(limit_bytes, self._policy.max_bytes)
        if self._method == "HEAD" or self.status in _WITHOUT_BODY:
            return
        raw = min(self._policy.max_raw_bytes, most)
        declared = self.header("content-length") or ""
        # Only one coding is accepted: a chain of codings can turn a small answer into endless work.
        coding = (self.header("content-encoding") or "identity").strip().lower()
        if coding not in ("identity", "gzip", "x-gzip"):
            raise EgressRefused(
                "The answer came in a content coding that was not asked for, so it was not read."
            )
        if declared.isdigit() and int(declared[:20]) > raw:
            raise _too_large(raw)
        arriving = self._counted(raw)
        async for chunk in arriving if coding == "identity" else _inflated(arriving, most):
            yield chunk

    async def _counted(self, most: int) -> AsyncIterator[bytes]:
        size = 0
        try:
            while chunk := await self._response.read():
                size += len(chunk)
                if size > most:
                    raise _too_large(most)
                yield chunk
        except BrokenError:
            raise EgressFailed(BROKE_OFF) from None


async def _inflated(chunks: AsyncIterator[bytes], most: int) -> AsyncIterator[bytes]:
    """Yield the content of all members of a gzip file (RFC 1952 section 2.2)."""
    decoder, size, members = zlib.decompressobj(_GZIP), 0, 1
    try:
        async for chunk in chunks:
            rest = chunk
            while rest:
                if decoder.eof:
                    members += 1
                    decoder = zlib.decompressobj(_GZIP)
                if members > _MAX_MEMBERS:
                    raise EgressRefused("The answer's compressed body has too many parts.")
                data = decoder.decompress(rest, most - size + 1)
                rest = decoder.unused_data
                size += len(data)
                if size > most:
                    raise _too_large(most)
                yield data
    except zlib.error:
        raise EgressFailed("The answer's compressed body is damaged. Try again later.") from None
    if not decoder.eof:
        raise EgressFailed("The answer's compressed body ended early. Try again later.")


def _too_large(limit: int) -> EgressRefused:
    return EgressRefused(f"The answer is larger than the {limit // 1024} KiB that are read. Ask for less.")
