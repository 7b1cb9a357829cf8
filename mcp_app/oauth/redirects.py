"""Where answers may be sent: which addresses may be registered, and which match (AUTH-32, AUTH-33)."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import SplitResult, urlsplit

from mcp_app import conf

LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_LONGEST: Final = 1_000
# No blank, control, quote or angle bracket; nothing that a browser reads in another way than we do.
_PLAIN: Final = re.compile(r"[!$&'()+,\-./0-9:;=?@A-Z_a-z~%\[\]]+")
# Host and port. What else a host may be written with, browsers and people read as something else.
_HOST: Final = re.compile(r"[0-9A-Za-z._-]+(:[0-9]*)?|\[[0-9A-Fa-f:.]+\](:[0-9]*)?")


def _parts(uri: str) -> SplitResult | None:
    try:
        parts = urlsplit(uri)
        _ = parts.port  # Out of range, it raises here.
    except ValueError:
        return None
    return parts


def is_loopback(uri: str) -> bool:
    """Whether ``uri`` is plain http on a loopback address."""
    parts = _parts(uri)
    return parts is not None and parts.scheme == "http" and parts.hostname in LOOPBACK


def problem(uri: object) -> str:
    """Why an address must not be registered, "" when it may."""
    if not isinstance(uri, str) or not 1 <= len(uri) <= _LONGEST:
        return f"A redirect URI has 1 to {_LONGEST} characters."
    if uri in conf.get().oauth_redirect_uris:
        return ""
    parts = _parts(uri)
    if parts is None or not _PLAIN.fullmatch(uri):
        return "A redirect URI is an absolute address in plain characters, without a fragment."
    if parts.scheme not in ("https", "http"):
        return "A redirect URI begins with https://, or is one that this server lists (OAUTH_REDIRECT_URIS)."
    if not parts.hostname or not _HOST.fullmatch(parts.netloc):
        return "A redirect URI names a host and no user."
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        return "Plain http is for this machine only: 127.0.0.1, [::1] or localhost."
    return ""


def matches(registered: str, asked: str) -> bool:
    """Whether ``asked`` is the registered address: by every character, but for the port of a loopback one."""
    if registered == asked:
        return not problem(asked)
    one, other = _parts(registered), _parts(asked)
    if one is None or other is None or problem(asked) or not is_loopback(registered):
        return False
    return (one.scheme, one.hostname, one.path or "/", one.query) == (
        other.scheme,
        other.hostname,
        other.path or "/",
        other.query,
    )


def origin_of(uri: str) -> str:
    """Scheme, host and port of an address, as people are shown where an answer goes."""
    parts = urlsplit(uri)
    return f"{parts.scheme}://{parts.netloc}"
