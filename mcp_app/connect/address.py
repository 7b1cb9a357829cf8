"""Owns the address shown to clients: the public one of the settings, else the host a request named."""

from __future__ import annotations

from urllib.parse import urlsplit

from django.core.exceptions import DisallowedHost, ImproperlyConfigured
from django.http import HttpRequest

from mcp_app import conf
from mcp_app.auth.site import issuer
from mcp_app.connect.connection import KEY_PLACEHOLDER, ServerConnection, is_address
from mcp_app.protocol.http.transport_security import names_loopback


def public_url() -> str:
    """The endpoint at the public address, empty when none is set; a wrong one is ImproperlyConfigured."""
    settings = conf.get()
    base = settings.public_url
    if not base:
        return ""
    url = base.rstrip("/") + settings.server.path
    if not is_address(url):
        raise ImproperlyConfigured(
            f"settings.MCP['PUBLIC_URL'] must be an http or https address, got {base!r}."
        )
    return url


def connection_at(url: str, key: str = "") -> ServerConnection:
    """This server at ``url``; with ``key``, for its owner only. Raises ValueError for a wrong address."""
    settings = conf.get()
    server = settings.server
    local = settings.auth == "loopback" and names_loopback(urlsplit(url).netloc.encode())
    return ServerConnection(
        server.name,
        url,
        needs_key=bool(key) or not local,
        key=key or KEY_PLACEHOLDER,
        title=server.title,
        logs_in=not key and bool(issuer()),
    )


def connection_for(request: HttpRequest, key: str = "") -> ServerConnection:
    """This server as the sender of ``request`` reaches it.

    Raises DisallowedHost (answered 400) when the address must come from a Host field that Django refuses or
    that makes no address, ImproperlyConfigured for a wrong public address.
    """
    url = public_url()
    if url:
        return connection_at(url, key)
    # get_host compares with ALLOWED_HOSTS; it accepts any digits as a port.
    url = f"{request.scheme}://{request.get_host()}{conf.get().server.path}"
    if not is_address(url):
        raise DisallowedHost("The Host field makes no address.")
    return connection_at(url, key)
