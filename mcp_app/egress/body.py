"""Bounded reading of response bodies."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator

import httpx2

from mcp_app.egress.policy import EgressFailed, EgressRefused, Policy

ACCEPT_ENCODING = "gzip"
_GZIP = zlib.MAX_WBITS | 16


async def read_bounded(response: httpx2.Response, policy: Policy) -> bytes:
    """Return the decoded body.

    Raises EgressRefused if the body is too large or in a coding that was not requested, and EgressFailed if
    the compressed data is damaged or incomplete.
    """
    declared = response.headers.get("content-length", "")
    if declared.isdigit() and int(declared[:20]) > policy.max_raw_bytes:
        raise _too_large(policy)
    # Only one coding is accepted: a chain of codings can turn a small answer into endless work.
    coding = response.headers.get("content-encoding", "identity").strip().lower()
    chunks = _counted(response, policy)
    if coding == "identity":
        return b"".join([chunk async for chunk in chunks])
    if coding in ("gzip", "x-gzip"):
        return await _inflate(chunks, policy)
    raise EgressRefused("The answer came in a content coding that was not asked for, so it was not read.")


async def _counted(response: httpx2.Response, policy: Policy) -> AsyncIterator[bytes]:
    size = 0
    async for chunk in response.aiter_raw():
        size += len(chunk)
        if size > policy.max_raw_bytes:
            raise _too_large(policy)
        yield chunk


async def _inflate(chunks: AsyncIterator[bytes], policy: Policy) -> bytes:
    decoder = zlib.decompressobj(_GZIP)
    decoded = bytearray()
    try:
        async for chunk in chunks:
            decoded += decoder.decompress(chunk, policy.max_bytes - len(decoded) + 1)
            if len(decoded) > policy.max_bytes:
                raise _too_large(policy)
    except zlib.error:
        raise EgressFailed("The answer's compressed body is damaged. Try again later.") from None
    if not decoder.eof:
        raise EgressFailed("The answer's compressed body ended early. Try again later.")
    return bytes(decoded)


def _too_large(policy: Policy) -> EgressRefused:
    limit = min(policy.max_bytes, policy.max_raw_bytes) // 1024
    return EgressRefused(f"The answer is larger than the {limit} KiB that are read. Ask for less.")
