"""Compression of pages and static files, depending on their content type."""

from __future__ import annotations

from pathlib import Path
from wsgiref.headers import Headers

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware

# Fonts and images are already compressed. Event streams would be delayed by compression.
KINDS = (
    "text/html",
    "text/css",
    "text/javascript",
    "application/json",
    "image/svg+xml",
    "application/vnd.oai",
)


class CompressionMiddleware(GZipMiddleware):
    """Django's middleware, which disguises lengths (BREACH), limited to complete text responses."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Compress the response, unless it has partial content or is not text."""
        if response.status_code == 206 or not response.get("Content-Type", "").startswith(KINDS):
            return response
        return super().process_response(request, response)


def weak_etag(headers: Headers, path: str, url: str) -> None:
    """Set the ETag of a static file. It is the same for the compressed file."""
    found = Path(path).stat()
    headers["ETag"] = f'W/"{found.st_mtime_ns:x}-{found.st_size:x}"'
