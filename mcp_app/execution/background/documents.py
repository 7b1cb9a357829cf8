"""Receiving of OpenAPI documents: small ones are read at once, large ones by a worker."""

from __future__ import annotations

from typing import Any

from mcp_app.catalogue.documents import storing
from mcp_app.catalogue.documents.fetching import fetched
from mcp_app.catalogue.sources.http.openapi.reading import DocumentError
from mcp_app.execution.background import celery
from mcp_app.models import ApiDocument


class NoWorker(DocumentError):
    """A large document that no worker can read, because the broker is unavailable."""


def receive(
    *, data: bytes | None, actor: Any, url: str = "", name: str = "", prefix: str = ""
) -> ApiDocument:
    """Store a new document, which is fetched from ``url`` if ``data`` is None.

    Raises DocumentError for an unusable document, and ValidationError by field. Nothing is stored then.
    """
    if data is None:
        data, url = fetched(url)
    later = len(data) > storing.LARGE
    row = storing.receive(data=data, actor=actor, url=url, name=name, prefix=prefix, later=later)
    if later and not _enqueued(row):
        row.delete()
        raise _no_worker()
    return row


def receive_newer(*, row: ApiDocument, data: bytes | None, actor: Any) -> ApiDocument:
    """Store a newer version of a document, which is fetched from its URL if ``data`` is None.

    Raises DocumentError. The version in use stays then.
    """
    if data is None:
        data = storing.fetch_newer(row=row)
    later = len(data) > storing.LARGE
    row = storing.receive_newer(row=row, data=data, actor=actor, later=later)
    if later and not _enqueued(row):
        storing.drop_incoming(row)
        raise _no_worker()
    return row


def _enqueued(row: ApiDocument) -> bool:
    try:
        celery.enqueue_document(row.pk)
    except celery.BrokerUnavailable:
        return False
    return True


def _no_worker() -> NoWorker:
    return NoWorker("Large documents are read by a worker, and its broker cannot be reached.")
