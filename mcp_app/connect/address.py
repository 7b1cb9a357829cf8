"""The address that is shown to clients: PUBLIC_URL, or else the host of the request."""

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
    """Return the public address of the server at ``path``, or "" if PUBLIC_URL is not set.

    Raises ImproperlyConfigured if PUBLIC_URL is not a valid address.
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
    """Return the data to connect to the server at ``url``. A given ``key`` is part of the data in clear text.

    Raises ValueError for an invalid address.
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
    """Return the data to connect to the server at ``path``.

    See ``address_for`` about the address and the exceptions.
    """
    return connection_at(address_for(request, path), key)


def address_for(request: HttpRequest, path: str = ENDPOINT) -> str:
    """Return the address of the server at ``path`` that is shown to the user of ``request``.

    Without PUBLIC_URL, the address has the host to which the client sent ``request``. Raises DisallowedHost
    (the response is 400) if that Host header is invalid, and ImproperlyConfigured for an invalid PUBLIC_URL.
    """
    if url := public_url(path):
        return url
    # get_host checks the host against ALLOWED_HOSTS, but accepts any digits as the port.
    url = f"{request.scheme}://{request.get_host()}{path}"
    if not is_address(url):
        raise DisallowedHost("The Host field makes no address.")
    return url
