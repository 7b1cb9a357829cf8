"""Bundles on pages: one script and one style sheet instead of their sources."""

from __future__ import annotations

import re
from functools import cache
from html import unescape
from pathlib import PurePath

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.templatetags.static import static
from django.utils.deprecation import MiddlewareMixin
from django.utils.html import format_html, format_html_join

from mcpsite.frame.bundles import BUNDLES, Bundle

TAG = re.compile(
    r'<(?:link\b[^>]*?\bhref|script\b[^>]*?\bsrc)="([^"#?]*)((?:#[^"]*)?)"[^>]*>(?:\s*</script>)?',
    re.IGNORECASE,
)
# Scripts that read their own address: parameters in its fragment, or the folder of another file.
READING = frozenset({"anything", "zone", "notices", "chart", "htmx"})


class BundlesMiddleware(MiddlewareMixin):
    """Replace the sources of bundles in HTML pages."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Rewrite a complete page; leave other responses as they are."""
        content = getattr(response, "content", None)
        if content and response.get("Content-Type", "").startswith("text/html"):
            charset = getattr(response, "charset", "utf-8")
            try:
                page = content.decode(charset)
            except (UnicodeDecodeError, LookupError):  # Not a page of the admin, but a file for example.
                return response
            for bundle in BUNDLES:
                if _addresses(bundle)[bundle.marker] in page:
                    page = _with(bundle, page)
            response.content = page.encode(charset)  # type: ignore[attr-defined]
            if response.has_header("Content-Length"):
                response["Content-Length"] = str(len(response.content))  # type: ignore[attr-defined]
        return response


@cache
def _addresses(bundle: Bundle) -> dict[str, str]:
    return {name: static(name) for name in bundle.sources}


@cache
def _names(bundle: Bundle) -> dict[str, str]:
    return {address: name for name, address in _addresses(bundle).items()}


def _with(bundle: Bundle, page: str) -> str:
    """Return a page whose first source is the bundle, and which has no further source.

    A page that only mentions the marker in its text is returned unchanged.
    """
    names = _names(bundle)
    found: set[str] = set()
    settings: dict[str, str] = {}
    places: list[int] = []

    def dropped(match: re.Match[str]) -> str:
        name = names.get(match[1])
        if name is None:
            return match[0]
        found.add(name)
        stem = PurePath(name).stem
        if stem in READING:
            settings.setdefault(stem, unescape(match[1] + match[2]))
        places.append(match.start())
        return ""

    rest = TAG.sub(dropped, page)
    if bundle.marker not in found:
        return page
    at = places[0]
    return rest[:at] + _tag(bundle, settings) + rest[at:]


def _tag(bundle: Bundle, settings: dict[str, str]) -> str:
    address = static(bundle.name)
    if bundle.name.endswith(".css"):
        return format_html('<link rel="stylesheet" href="{}">', address)
    data = format_html_join("", ' data-{}="{}"', settings.items()) if settings else ""
    return format_html('<script src="{}"{} defer></script>', address, data)
