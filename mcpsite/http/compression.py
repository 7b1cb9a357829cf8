"""Sends pages and static files compressed; owns which kinds."""

from __future__ import annotations

from pathlib import Path
from wsgiref.headers import Headers

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware

# Fonts and pictures are compressed already; a stream of events must not wait for a full block.
KINDS = (
    "text/html",
    "text/css",
    "text/javascript",
    "application/json",
    "image/svg+xml",
    "application/vnd.oai",
)


class CompressionMiddleware(GZipMiddleware):
    """Django's own, which hides lengths (BREACH), for text that is sent whole."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Neither part of a file, nor anything else than text."""
        if response.status_code == 206 or not response.get("Content-Type", "").startswith(KINDS):
            return response
        return super().process_response(request, response)


def weak_etag(headers: Headers, path: str, url: str) -> None:
    """What a browser asks with for changes of a static file; the same for its compressed form."""
    found = Path(path).stat()
    headers["ETag"] = f'W/"{found.st_mtime_ns:x}-{found.st_size:x}"'
