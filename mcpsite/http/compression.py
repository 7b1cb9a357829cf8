"""Compression of pages and static files, by content type."""

from __future__ import annotations

from pathlib import Path
from wsgiref.headers import Headers

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware

# Without fonts and images, which are compressed, and event streams, which compression would delay.
KINDS = (
    "text/html",
    "text/css",
    "text/javascript",
    "application/json",
    "image/svg+xml",
    "application/vnd.oai",
)


class CompressionMiddleware(GZipMiddleware):
    """Django's middleware, which hides lengths (BREACH), for complete text responses only."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Compress the response, except partial content and types other than text."""
        if response.status_code == 206 or not response.get("Content-Type", "").startswith(KINDS):
            return response
        return super().process_response(request, response)


def weak_etag(headers: Headers, path: str, url: str) -> None:
    """Set the ETag of a static file, the same for its compressed form."""
    found = Path(path).stat()
    headers["ETag"] = f'W/"{found.st_mtime_ns:x}-{found.st_size:x}"'
