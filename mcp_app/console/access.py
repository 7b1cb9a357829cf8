"""Access to the console.

The user is found by the session cookie. Open connections are checked again and again (S22).
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http.request import validate_host

from mcp_app.notices.attention import PERMISSIONS
from mcp_app.oauth.second_factor.gate import user_of_session

MESSAGES, SESSIONS = "mcp_app.view_message", "mcp_app.view_session"
# A user who has one of these permissions can act on some kind of pending task.
NEEDS = tuple(sorted({name for names in PERMISSIONS.values() for name in names[:1]}))


def visitor(session_key: str) -> Any | None:
    """Return the staff user who is logged in with a session.

    Returns None if the session ended, or if the user may not log in to the admin.
    """
    user = user_of_session(session_key)
    return user if user is not None and user.is_active and user.is_staff else None


def may(session_key: str, permissions: tuple[str, ...]) -> bool:
    """Return True if the user of a session currently has at least one of these permissions."""
    user = visitor(session_key)
    return user is not None and any(user.has_perm(each) for each in permissions)


def is_own_origin(headers: list[tuple[bytes, bytes]]) -> bool:
    """Return True if a page of this site opened the connection.

    Browsers send cookies even if a page of another site opens it. The origin must therefore equal the
    requested host and port, or be a trusted origin. An allowed host is not enough, because cookies ignore
    ports and another program on the same machine may use another port.
    """
    named = {name: value.decode("latin-1") for name, value in headers if name in (b"host", b"origin")}
    origin, host = named.get(b"origin", ""), named.get(b"host", "")
    if origin in settings.CSRF_TRUSTED_ORIGINS:
        return True
    try:
        parts = urlsplit(origin)
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    allowed = settings.ALLOWED_HOSTS or (["localhost", "127.0.0.1", "[::1]"] if settings.DEBUG else [])
    if ":" in name:
        name = f"[{name}]"
    return parts.scheme in ("http", "https") and parts.netloc == host != "" and validate_host(name, allowed)
