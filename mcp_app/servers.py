"""The MCP servers of this installation, by the path of their endpoint.

The installation's own server is at ENDPOINT. Further ones are below it, at ``/mcp/<name>``, and come from a
registered provider. Routes, views, stored requests and OAuth all ask this module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mcp_app import conf
from mcp_app.protocol.messages.server import ENDPOINT, Server, further_path

# Returns further servers by path. Called for every request to one of them, so it does no I/O.
Provider = Callable[[], Mapping[str, Server]]

_providers: list[Provider] = []


def register(provider: Provider) -> None:
    """Register the provider of further servers."""
    _providers.append(provider)


def further() -> frozenset[str]:
    """Return the paths of the further servers."""
    return frozenset(path for provider in _providers for path in provider())


def at(path: str) -> Server:
    """Return the server at a path; for an unknown path, a ``removed`` one.

    Sessions, streams and stored calls may outlive their server. Their results then name the installation.
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
    """Return a path of a further server as that of the installation's own; other paths unchanged.

    ``/mcp/notes`` becomes ``/mcp``, and the address of its metadata that of the own server's metadata.
    """
    further = further_path(path)
    return path.replace(further, ENDPOINT, 1) if further and not at(further).removed else path
