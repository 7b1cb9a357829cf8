"""Storing of documents: a file is received, read, surveyed and then stored as a whole, or not at all.

Callers check permissions. ``actor`` is the acting user, or None for the installation itself.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from django.core.exceptions import PermissionDenied, ValidationError
from django.db import IntegrityError, transaction

from mcp_app.catalogue.documents import packing
from mcp_app.catalogue.documents.fetching import fetched, with_others
from mcp_app.catalogue.sources.http.openapi.convert import Converter
from mcp_app.catalogue.sources.http.openapi.names import slug
from mcp_app.catalogue.sources.http.openapi.reading import (
    MAX_BYTES,
    MIB,
    Document,
    DocumentError,
    read,
)
from mcp_app.catalogue.sources.http.openapi.servers import Server, problem_of, servers_of, typed_server
from mcp_app.catalogue.sources.http.openapi.survey import survey
from mcp_app.credentials.services import NOT_ALLOWED, USE
from mcp_app.models import ApiDocument, Credential, audit
from mcp_app.models.audit import stored_user

# Larger files are read by a worker, because reading one takes seconds.
LARGE: Final = 2 * MIB
BROKEN: Final = "The document could not be read. The log of the worker has the reason."
CHOICES: Final = ("name", "prefix", "url", "server", "credentials")


def receive(
    *, data: bytes, actor: Any, url: str = "", name: str = "", prefix: str = "", later: bool = False
) -> ApiDocument:
    """Store a new document. With ``later``, only its bytes are stored, and ``read_incoming`` must be called.

    Raises DocumentError for an unusable document, and ValidationError by field. Nothing is stored then.
    """
    if len(data) > MAX_BYTES:
        raise DocumentError(
            f"The document has {len(data) / MIB:.0f} MiB; at most {MAX_BYTES // MIB} are read."
        )
    row = ApiDocument(name=name, url=url, prefix=prefix, updated_by=stored_user(actor))
    if later:
        row.name = name or free_name(prefix or "api")
        row.incoming = zlib.compress(data, 1)
    else:
        document = _read(data, url)
        row.name = name or free_name(prefix or slug(document.title).lower() or "api")
        _take(row, document, lambda done, total: None)
    _save_new(row)
    audit(
        actor=actor,
        action="document.received",
        object_kind="document",
        object_key=row.name,
        detail={"url": url},
    )
    return row


def receive_newer(*, row: ApiDocument, data: bytes, actor: Any, later: bool = False) -> ApiDocument:
    """Store a newer version of a document beside the one in use. Raises DocumentError."""
    if later:
        row.incoming, row.state, row.progress = zlib.compress(data, 1), ApiDocument.State.READING, 0
    else:
        _offer(row, _read(data, row.url))
    row.updated_by = stored_user(actor)
    row.save()
    audit(actor=actor, **_about(row), action="document.newer", detail={})
    return row


def read_incoming(pk: int) -> None:
    """Read the received file of a document, which may take a minute. A worker calls this.

    The outcome is in ``state`` and ``problem``.
    """
    row = ApiDocument.objects.filter(pk=pk).first()
    if row is None or row.incoming is None:
        return
    data = zlib.decompress(row.incoming)

    def progress(done: int, total: int) -> None:
        ApiDocument.objects.filter(pk=pk).update(progress=min(99, 10 + done * 90 // max(total, 1)))

    # Stays if the reading is interrupted. Otherwise, the page would show the progress forever.
    row.state, row.problem = ApiDocument.State.FAILED, BROKEN
    try:
        document = _read(data, row.url)
        if row.content is None:
            _take(row, document, progress)
        else:
            _offer(row, document)
    except DocumentError as error:
        row.problem = str(error)[:500]
    finally:
        row.incoming = None
        with transaction.atomic():
            if ApiDocument.objects.select_for_update().filter(pk=pk).exists():
                row.save()


def drop_incoming(row: ApiDocument) -> None:
    """Delete a received file that no worker can read. The version in use stays."""
    row.incoming, row.state, row.progress = None, ApiDocument.State.READY, 100
    row.save()


def fetch_newer(*, row: ApiDocument) -> bytes:
    """Return the bytes at a document's address. Raises DocumentError."""
    if not row.url:
        raise DocumentError("This document was uploaded, so it has no address: upload the new version.")
    return fetched(row.url)[0]


def save_choices(*, row: ApiDocument, actor: Any, **values: Any) -> ApiDocument:
    """Store name, prefix, URL, server or credentials.

    Raises ValidationError by field, and PermissionDenied if the actor may not use credentials.
    """
    given = {name: value for name, value in values.items() if name in CHOICES}
    changed = sorted(name for name, value in given.items() if getattr(row, name) != value)
    if not changed:
        return row
    if "credentials" in changed:
        _check_credentials(given["credentials"], actor)
    if given.get("server") and (problem := problem_of(given["server"])):
        raise ValidationError({"server": [problem]})
    for name in changed:
        setattr(row, name, given[name])
    row.updated_by = stored_user(actor)
    row.full_clean(exclude=("updated_by",))
    with transaction.atomic():
        row.save()
        audit(actor=actor, **_about(row), action="document.changed", detail={"fields": changed})
    return row


def _check_credentials(given: Mapping[str, str], actor: Any) -> None:
    wanted = {name for name in given.values() if name}
    if wanted and stored_user(actor) is not None and not actor.has_perm(USE):
        raise PermissionDenied(NOT_ALLOWED)
    known = Credential.objects.filter(name__in=wanted).values_list("name", flat=True)
    if missing := sorted(wanted - set(known)):
        raise ValidationError({"credentials": [f"There is no credential {missing[0]!r}."]})


def delete_document(*, row: ApiDocument, actor: Any) -> None:
    """Delete a document. Its tools and drafts stay, and can no longer be updated."""
    about = _about(row)
    row.delete()
    audit(actor=actor, **about, action="document.deleted", detail={})


def document_of(row: ApiDocument) -> Document:
    """Return the document in use. Raises DocumentError if there is none yet."""
    if row.content is None:
        raise DocumentError(row.problem or "The document is not read yet.")
    return packing.unpacked_document(row.content)


def newer_of(row: ApiDocument) -> Document | None:
    """Return the newer version that waits for decisions."""
    return packing.unpacked_document(row.newer) if row.newer is not None else None


def server_of(row: ApiDocument, document: Document) -> Server:
    """Return the chosen server, or else the first of the document."""
    return typed_server(row.server) if row.server else servers_of(document)[0]


def converter_of(row: ApiDocument, document: Document) -> Converter:
    """Return the converter of a document with the choices made for it."""
    credentials: Mapping[str, str] = row.credentials
    return Converter(document, server=server_of(row, document), credentials=credentials, prefix=row.prefix)


def free_name(wanted: str) -> str:
    """Return a name that no document has."""
    base = slug(wanted).lower()[:50] or "api"
    taken = set(ApiDocument.objects.filter(name__startswith=base).values_list("name", flat=True))
    return next(
        name for name in (base, *(f"{base}-{n}" for n in range(2, len(taken) + 3))) if name not in taken
    )


def _read(data: bytes, url: str) -> Document:
    return with_others(read(data, url))


def _take(row: ApiDocument, document: Document, progress: Callable[[int, int], None]) -> None:
    """Put a document into use."""
    row.title, row.version, row.sha256 = document.title, document.version, document.sha256
    surveyed = survey(converter_of(row, document), progress)
    row.operations = len(surveyed)
    row.content, row.survey = packing.packed_document(document), packing.packed_survey(surveyed)
    row.newer, row.newer_sha256 = None, ""
    _settle(row)


def _offer(row: ApiDocument, document: Document) -> None:
    """Store a newer version, unless it equals the one in use."""
    is_same = document.sha256 == row.sha256
    row.newer = None if is_same else packing.packed_document(document)
    row.newer_sha256 = "" if is_same else document.sha256
    _settle(row)


def take_newer(row: ApiDocument) -> None:
    """Put the newer version into use."""
    if (document := newer_of(row)) is not None:
        _take(row, document, lambda done, total: None)
        row.save()


def _settle(row: ApiDocument) -> None:
    row.state, row.problem, row.progress = ApiDocument.State.READY, "", 100
    row.fetched_at = datetime.now(UTC)


def _save_new(row: ApiDocument) -> None:
    row.full_clean(exclude=("updated_by",))
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError as error:
        raise ValidationError({"name": ["A document of this name exists already."]}) from error


def _about(row: ApiDocument) -> dict[str, str]:
    return {"object_kind": "document", "object_key": row.name}
