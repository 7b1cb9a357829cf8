"""The MCP servers of this installation by the path of their endpoint.

The installation's own server is at ENDPOINT. Additional servers are at ``/mcp/<name>`` and come from
registered providers. Routes, views, stored requests and OAuth all use this module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mcp_app import conf
from mcp_app.protocol.messages.server import ENDPOINT, Server, further_path

# Returns additional servers by path. It is called for every request to one of them, so it must do no I/O.
Provider = Callable[[], Mapping[str, Server]]

_providers: list[Provider] = []


def register(provider: Provider) -> None:
    """Register a provider of additional servers."""
    _providers.append(provider)


def further() -> frozenset[str]:
    """Return the paths of the additional servers."""
    return frozenset(path for provider in _providers for path in provider())


def at(path: str) -> Server:
    """Return the server at a path, or a ``removed`` server if there is none.

    Sessions, streams and stored calls may outlive their server. Results for them then name the
    installation.
    """
    settings = conf.get()
    own = settings.server
    if path == ENDPOINT:
        return own
    for provider in _providers:
        if found := provider().get(path):
            return found
    return Server(
        own.name, own.version, title=own.title, website=settings.public_url, path=path, removed=True
    )


def as_own(path: str) -> str:
    """Replace the path of an additional server with the own server's. Return other paths unchanged.

    ``/mcp/notes`` becomes ``/mcp``, and the path of its metadata becomes that of the own server's metadata.
    """
    further = further_path(path)
    return path.replace(further, ENDPOINT, 1) if further and not at(further).removed else path
