"""Checks of icons before they are sent to clients. The server never loads an icon."""

from __future__ import annotations

import re
from base64 import b64decode
from typing import Any, Final
from urllib.parse import unquote_to_bytes, urlsplit

from mcp_app.protocol.messages.media import check_file, same_type

THEMES: Final = ("light", "dark")
MAX_DATA_URI: Final = 64 * 1024

_SIZE: Final = re.compile(r"any|[1-9][0-9]{0,4}x[1-9][0-9]{0,4}")
_IMAGE_TYPE: Final = re.compile(r"image/[a-z0-9][a-z0-9.+-]{0,60}", re.IGNORECASE)
_DATA_URI: Final = re.compile(
    r"data:image/[a-z0-9.+-]{1,60}(?:;[a-z0-9=.+-]{1,60})*,[\x21-\x7e]+", re.IGNORECASE
)
_VISIBLE: Final = re.compile(r"[\x21-\x7e]+")
_MEMBERS: Final = frozenset(("src", "mimeType", "sizes", "theme"))


def check_icon(icon: Any, *, allow_http: bool = False) -> None:
    """Check one icon of an entry (ICON-01, ICON-02). Raise ValueError with the problem and the remedy.

    ``allow_http`` must be set in development only.
    """
    if not (isinstance(icon, dict) and isinstance(icon.get("src"), str)):
        raise ValueError("An icon must be an object with a 'src'.")  # noqa: TRY004
    unknown = ", ".join(sorted(map(str, icon.keys() - _MEMBERS)))
    if unknown:
        raise ValueError(f"An icon has no member {unknown}: use {', '.join(sorted(_MEMBERS))}.")
    _check_source(icon["src"], allow_http=allow_http)
    _check_details(icon)
    if icon["src"][:5].lower() == "data:":
        _check_data(icon["src"][5:], icon.get("mimeType"))


def check_icons(icons: Any, *, allow_http: bool = False) -> None:
    """Check a list of icons. Raise ValueError as ``check_icon`` does."""
    if not isinstance(icons, list):
        raise ValueError("Icons must be a list of icon objects.")  # noqa: TRY004
    for icon in icons:
        check_icon(icon, allow_http=allow_http)


def _check_source(source: str, *, allow_http: bool) -> None:
    scheme = source.partition(":")[0].lower()
    if scheme == "data":
        if len(source) > MAX_DATA_URI or not _DATA_URI.fullmatch(source):
            raise ValueError(f"A 'data:' icon must be an image of at most {MAX_DATA_URI} characters.")
        return
    allowed = ("https", "http") if allow_http else ("https",)
    if scheme not in allowed:
        raise ValueError("The 'src' of an icon must be an 'https:' or 'data:image/' URL.")
    if len(source) > 2048 or not _VISIBLE.fullmatch(source) or not _has_plain_host(source):
        raise ValueError(
            "The 'src' of an icon must be a URL with a host, without blanks, user name or password."
        )


def _check_data(source: str, mime_type: str | None) -> None:
    """Check that the bytes of a 'data:' icon match its media type and its ``mimeType``."""
    head, _, body = source.partition(",")
    declared = head.partition(";")[0]
    if mime_type is not None and not same_type(mime_type, declared):
        raise ValueError(f"The 'mimeType' of a 'data:' icon of {declared} is {mime_type}: leave it out.")
    try:
        is_base64 = head.lower().endswith(";base64")
        check_file(b64decode(body, validate=True) if is_base64 else unquote_to_bytes(body), declared)
    except ValueError as error:
        raise ValueError(f"A 'data:' icon cannot be shown: {error}") from None


def _has_plain_host(source: str) -> bool:
    try:
        parts = urlsplit(source)
    except ValueError:
        return False
    return bool(parts.hostname) and "@" not in parts.netloc


def _check_details(icon: dict[str, Any]) -> None:
    mime_type, sizes, theme = icon.get("mimeType"), icon.get("sizes"), icon.get("theme")
    if mime_type is not None and not (isinstance(mime_type, str) and _IMAGE_TYPE.fullmatch(mime_type)):
        raise ValueError("The 'mimeType' of an icon must be an image type such as 'image/png'.")
    if sizes is not None and not (isinstance(sizes, list) and all(map(_is_size, sizes))):
        raise ValueError("The 'sizes' of an icon must be a list such as ['48x48'] or ['any'].")
    if theme is not None and theme not in THEMES:
        raise ValueError("The 'theme' of an icon must be 'light' or 'dark'.")


def _is_size(value: object) -> bool:
    return isinstance(value, str) and _SIZE.fullmatch(value) is not None
