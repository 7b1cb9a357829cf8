"""The address shown to clients: PUBLIC_URL, else the host of the request."""

from __future__ import annotations

from urllib.parse import urlsplit

from django.core.exceptions import DisallowedHost, ImproperlyConfigured
from django.http import HttpRequest

from mcp_app import conf, servers
from mcp_app.auth.own_addresses import issuer
from mcp_app.connect.connection import KEY_PLACEHOLDER, ServerConnection, is_address
from mcp_app.protocol.http.transport_security import names_loopback
from mcp_app.protocol.messages.server import ENDPOINT, further_path


def public_url(path: str = ENDPOINT) -> str:
    """Return the endpoint of the server at ``path`` at the public address, or "" if none is set.

    Raises ImproperlyConfigured for a wrong address.
    """
    base = conf.get().public_url
    if not base:
        return ""
    url = base.rstrip("/") + path
    if not is_address(url):
        raise ImproperlyConfigured(
            f"settings.MCP['PUBLIC_URL'] must be an http or https address, got {base!r}."
        )
    return url


def connection_at(url: str, key: str = "") -> ServerConnection:
    """Return the server at ``url``; ``key`` is shown in clear text.

    Raises ValueError for a wrong address.
    """
    parts = urlsplit(url)
    server = servers.at(further_path(parts.path) or ENDPOINT)
    local = conf.get().auth == "loopback" and names_loopback(parts.netloc.encode())
    return ServerConnection(
        server.name,
        url,
        needs_key=bool(key) or not local,
        key=key or KEY_PLACEHOLDER,
        title=server.title,
        logs_in=not key and bool(issuer()),
    )


def connection_for(request: HttpRequest, key: str = "", path: str = ENDPOINT) -> ServerConnection:
    """Return the server at ``path`` as the sender of ``request`` reaches it.

    Raises DisallowedHost (answered 400) if the address comes from an invalid Host header,
    ImproperlyConfigured for a wrong public address.
    """
    url = public_url(path)
    if url:
        return connection_at(url, key)
    # get_host checks ALLOWED_HOSTS but accepts any digits as a port.
    url = f"{request.scheme}://{request.get_host()}{path}"
    if not is_address(url):
        raise DisallowedHost("The Host field makes no address.")
    return connection_at(url, key)
