"""References from a document to other documents: found, and rewritten to whole addresses (INT-23).

Fetching is left to the caller. Only documents of the same origin are worth fetching.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urldefrag, urljoin

from mcp_app.catalogue.sources.http.openapi.reading import Document
from mcp_app.catalogue.sources.http.openapi.servers import origin_of

MAX_FILES: Final = 20


def wanted(document: Document) -> list[str]:
    """Return the addresses of documents that this one refers to, that have its origin, and that it lacks."""
    if not document.url:
        return []
    found: dict[str, None] = {}
    for base, root in ((document.url, document.root), *document.others.items()):
        for holder in _references(root):
            address = _whole(base, holder["$ref"])[0]
            if address not in (document.url, *document.others) and _is_near(address, document.url):
                found[address] = None
    return list(found)


def joined(document: Document, others: Mapping[str, Mapping[str, Any]]) -> Document:
    """Return the document together with others by address, and with references as whole addresses.

    References to documents that are missing lead nowhere, so their operations are reported.
    """
    if not others:
        return document
    pages = {address: _rewritten(root, address, document.url) for address, root in others.items()}
    root = _rewritten(document.root, document.url, document.url)
    return replace(document, root=root, others={**document.others, **pages})


def _whole(base: str, target: str) -> tuple[str, str]:
    """Return the address and the fragment of a reference. A malformed reference has no address."""
    try:
        address, fragment = urldefrag(urljoin(base, target))
    except ValueError:
        return "", ""
    return address, fragment


def _is_near(address: str, url: str) -> bool:
    return address.startswith(("https:", "http:")) and origin_of(address) == origin_of(url) != ""


def _references(value: Any) -> Iterator[dict[str, Any]]:
    """Yield each object with a reference to another document."""
    pending, seen = [value], set[int]()
    while pending:
        item = pending.pop()
        if id(item) in seen:
            continue
        if isinstance(item, dict | list):
            seen.add(id(item))
            pending += item.values() if isinstance(item, dict) else item
        if (
            isinstance(item, dict)
            and isinstance(target := item.get("$ref"), str)
            and target[:1] not in ("#", "")
        ):
            yield item


def _rewritten(value: Any, base: str, home: str) -> Any:
    """Return a copy in which references are ``#…`` for the first document and whole addresses for others."""
    if isinstance(value, list):
        return [_rewritten(each, base, home) for each in value]
    if not isinstance(value, dict):
        return value
    found = {name: _rewritten(each, base, home) for name, each in value.items()}
    if isinstance(target := value.get("$ref"), str):
        address, fragment = _whole(base, target)
        found["$ref"] = f"#{fragment}" if address == home else f"{address}#{fragment}"
    return found
