"""Rules for redirect URIs: which may be registered and which match (AUTH-32, AUTH-33)."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import SplitResult, urlsplit

from mcp_app import conf

LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_LONGEST: Final = 1_000
# Characters that browsers and this server parse alike. Blanks, control characters, quotes and angle brackets
# are excluded.
_PLAIN: Final = re.compile(r"[!$&'()+,\-./0-9:;=?@A-Z_a-z~%\[\]]+")
# Host and port. Other characters are excluded, because browsers and people may read them differently.
_HOST: Final = re.compile(r"[0-9A-Za-z._-]+(:[0-9]*)?|\[[0-9A-Fa-f:.]+\](:[0-9]*)?")


def _parts(uri: str) -> SplitResult | None:
    try:
        parts = urlsplit(uri)
        _ = parts.port  # Raises ValueError if the port is out of range.
    except ValueError:
        return None
    return parts


def is_loopback(uri: str) -> bool:
    """Return True if ``uri`` uses plain http and a loopback host."""
    parts = _parts(uri)
    return parts is not None and parts.scheme == "http" and parts.hostname in LOOPBACK


def problem(uri: object) -> str:
    """Return the reason why an address must not be registered, or "" if it may be."""
    if not isinstance(uri, str) or not 1 <= len(uri) <= _LONGEST:
        return f"A redirect URI has 1 to {_LONGEST} characters."
    if uri in conf.get().oauth_redirect_uris:
        return ""
    parts = _parts(uri)
    if parts is None or not _PLAIN.fullmatch(uri):
        return "A redirect URI is an absolute address in plain characters, without a fragment."
    if parts.scheme not in ("https", "http"):
        return "This redirect URI is not allowed. Use https://, or add it to the setting OAUTH_REDIRECT_URIS."
    if not parts.hostname or not _HOST.fullmatch(parts.netloc):
        return "A redirect URI names a host and no user."
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        return "Plain http is for this machine only: 127.0.0.1, [::1] or localhost."
    return ""


def comparable(uri: str) -> tuple[str, ...]:
    """Return the parts of a valid address that are compared.

    The port of a loopback address is left out, because programs listen on any free port (RFC 8252 section
    7.3).
    """
    parts = _parts(uri)
    if parts is None or not is_loopback(uri):
        return (uri,)
    return parts.scheme, parts.hostname or "", parts.path or "/", parts.query


def matches(registered: str, asked: str) -> bool:
    """Return True if a client that registered ``registered`` may receive responses at ``asked``."""
    return comparable(registered) == comparable(asked) and not problem(asked)


def origin_of(uri: str) -> str:
    """Return scheme, host and port of an address, for display."""
    parts = urlsplit(uri)
    return f"{parts.scheme}://{parts.netloc}"
