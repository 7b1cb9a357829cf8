"""Readers of resource content: stored text, an uploaded file, or a file in a resource directory."""

from __future__ import annotations

import logging
import mimetypes
from collections.abc import Callable
from typing import Any

from mcp_app import conf
from mcp_app.catalogue.definitions.content import resource_contents
from mcp_app.catalogue.sources.content import files
from mcp_app.protocol.errors import ResourceNotFound
from mcp_app.protocol.messages.media import check_file, media_type

log = logging.getLogger("mcp.catalogue")
Static = Callable[[str], list[dict[str, Any]]]


def text_reader(text: str, mime_type: str) -> Static:
    """Return a reader of the stored text."""
    return lambda uri: [resource_contents(text, uri=uri, mime_type=mime_type)]


def upload_reader(name: str, mime_type: str) -> Static:
    """Return a reader of the uploaded file ``name`` below the upload directory."""

    def read(uri: str) -> list[dict[str, Any]]:
        return _contents(uri, mime_type, lambda limit: files.read_below(upload_directory(), name, limit))

    return read


def directory_reader(mime_type: str) -> Static:
    """Return a reader of files named by ``file:`` URIs, below the resource directories."""

    def read(uri: str) -> list[dict[str, Any]]:
        roots = conf.get().resource_directories
        return _contents(uri, mime_type, lambda limit: files.read_uri(uri, roots, limit))

    return read


def upload_directory() -> str:
    """Return the directory of uploaded files."""
    from django.conf import settings

    return conf.get().upload_directory or str(settings.MEDIA_ROOT)


def guess_mime_type(name: str) -> str:
    """Return the MIME type for a file name's suffix, or ``application/octet-stream`` if it is unknown."""
    return mimetypes.guess_type(name)[0] or "application/octet-stream"


def _contents(uri: str, mime_type: str, read: Callable[[int], bytes]) -> list[dict[str, Any]]:
    """Return the contents of a file. A forbidden file raises ResourceNotFound like a missing file (RES-06).

    The reason is in the log only.
    """
    try:
        # Base64 adds a third to the size.
        data = read(conf.get().max_result_bytes * 3 // 4)
    except files.FileRefusedError as error:
        log.warning("Resource %r cannot be read: %s", uri, error)
        raise ResourceNotFound(data={"uri": uri}) from error
    if files.is_text(mime_type):
        try:
            return [resource_contents(data.decode("utf-8"), uri=uri, mime_type=mime_type)]
        except UnicodeDecodeError:
            log.warning("Resource %r is declared %s but is not UTF-8; sent as bytes", uri, mime_type)
    return [resource_contents(data, uri=uri, mime_type=_fitting(uri, data, mime_type))]


def _fitting(uri: str, data: bytes, mime_type: str) -> str:
    """Return ``mime_type``, or the type of the file's bytes if they differ.

    Clients pass images to models, which refuse bytes of another type.
    """
    try:
        check_file(data, mime_type)
    except ValueError as error:
        log.warning("Resource %r is declared %s: %s", uri, mime_type, error)
        return media_type(data) or "application/octet-stream"
    return mime_type
