"""Fetching of documents through egress, with the documents of the same origin that they refer to (INT-23)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from asgiref.sync import async_to_sync
from django.core.exceptions import ValidationError

from mcp_app import conf
from mcp_app.catalogue.sources.http.openapi import external
from mcp_app.catalogue.sources.http.openapi.reading import MAX_BYTES, Document, DocumentError, parsed
from mcp_app.egress import EgressError, Fetched, Policy, fetch
from mcp_app.egress.policy import networks

# For a document, and for all documents that it refers to together.
SECONDS: Final = 60.0
# Documents that others refer to, together.
MAX_OTHERS: Final = MAX_BYTES


def content_of(*, url: str, file: Any, text: str) -> bytes | None:
    """Return the bytes of an uploaded file or of a text, or None for a URL. Raises ValidationError."""
    if sum(map(bool, (url, file, text))) != 1:
        raise ValidationError("Choose one: a URL, a file or the text.")
    if url and not url.startswith(("https://", "http://")):
        raise ValidationError({"url": "A URL begins with https:// or http://."})
    if file:
        content: bytes = file.read(MAX_BYTES + 1)
        return content
    return text.encode("utf-8", "surrogatepass") if text else None


def fetched(url: str) -> tuple[bytes, str]:
    """Return the bytes at an address, and the address after redirects. Raises DocumentError."""
    answer = _get(url, redirects=5)
    return answer.body, answer.url


def with_others(document: Document) -> Document:
    """Return a document together with the documents of its origin that it refers to.

    A document that cannot be read is left out. The operations that need it are reported by the survey.
    """
    missing: set[str] = set()
    size, until = 0, time.monotonic() + SECONDS
    while wanted := [url for url in external.wanted(document) if url not in missing]:
        found: dict[str, Mapping[str, Any]] = {}
        for url in wanted:
            left = until - time.monotonic()
            known = len(document.others) + len(found) + len(missing)
            if known >= external.MAX_FILES or size > MAX_OTHERS or left <= 0:
                missing.add(url)
                continue
            try:
                body = _get(url, redirects=0, seconds=left).body
                size += len(body)
                found[url] = parsed(body)
            except DocumentError:
                missing.add(url)
        document = external.joined(document, found)
    return document


def _get(url: str, *, redirects: int, seconds: float = SECONDS) -> Fetched:
    policy = Policy(
        ports=frozenset(range(1, 65_536)),
        allow=networks(conf.get().egress_allow),
        allow_setting="EGRESS_ALLOW",
        content_types=None,
        max_redirects=redirects,
        max_raw_bytes=MAX_BYTES,
        max_bytes=MAX_BYTES,
        seconds=seconds,
    )
    try:
        answer: Fetched = async_to_sync(fetch)(url, policy)
    except EgressError as error:
        raise DocumentError(f"The document cannot be fetched: {error}") from error
    if answer.status != 200:
        raise DocumentError(f"The document cannot be fetched: its server answered {answer.status}.")
    return answer
