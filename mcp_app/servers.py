"""The MCP servers of this installation by the path of their endpoint.

The installation's own server is at ENDPOINT. Further servers are at ``/mcp/<name>``, with HTTP+SSE at
``/sse/<name>``, and come from registered providers. Routes, views, stored requests and OAuth all use this
module. ``Views.of`` in ``catalogue/snapshots/current_snapshot.py`` chooses the entries of a server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mcp_app import conf
from mcp_app.protocol.messages.server import ENDPOINT, Server

# Returns further servers by path. It is called for every request to such a server, so it must do no I/O.
Provider = Callable[[], Mapping[str, Server]]

_providers: list[Provider] = []


class _Default:
    """The path of the toolset that is served at ENDPOINT, or ENDPOINT if there is none."""

    path = ENDPOINT


default = _Default()


def register(provider: Provider) -> None:
    """Register a provider of further servers."""
    _providers.append(provider)


def serve_by_default(path: str) -> None:
    """Serve the toolset at a path at ENDPOINT as well. ENDPOINT itself ends that."""
    default.path = path


def toolset_path(path: str) -> str:
    """Return the path of the toolset that is served at a path. Other paths are returned unchanged."""
    return default.path if path == ENDPOINT else path


def further() -> frozenset[str]:
    """Return the paths of the further servers."""
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
