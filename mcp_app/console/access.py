"""Owns access to the console: the user of a session cookie, checked again on open connections (S22)."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http.request import validate_host

from mcp_app.notices.needs import PERMISSIONS
from mcp_app.oauth.second_factor.gate import user_of_session

MESSAGES, SESSIONS = "mcp_app.view_message", "mcp_app.view_session"
# Of each kind of what waits for people, what it takes to deal with it.
NEEDS = tuple(sorted({name for names in PERMISSIONS.values() for name in names[:1]}))


def visitor(session_key: str) -> Any | None:
    """The staff user who is signed in with a session; None once it has ended or they may not sign in."""
    user = user_of_session(session_key)
    return user if user is not None and user.is_active and user.is_staff else None


def may(session_key: str, permissions: tuple[str, ...]) -> bool:
    """Whether the visitor has one of these permissions now."""
    user = visitor(session_key)
    return user is not None and any(user.has_perm(each) for each in permissions)


def is_own_origin(headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether a page of this very site asks: a browser sends its cookies also for pages of others.

    Host and port must be those that were asked, or the site must be named as trusted. An allowed host alone
    would not do: another program on this machine has another port, and cookies do not tell ports apart.
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
