"""URIs of other servers here. The URIs of two servers never collide.

A URI is kept if no other server or entry has its scheme. Otherwise it gets a scheme that belongs to its
server: ``up+crm:file:///notes``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from mcp_app.catalogue.sources.upstream.known import KEPT_SECONDS
from mcp_app.database.queries import aquery
from mcp_app.models import Draft, Resource, ResourceTemplate
from mcp_app.protocol.messages import uri_template
from mcp_app.protocol.messages.uri_template import UriTemplate

Address = Callable[[str], str]
# Schemes with a meaning at this server, or at the machines of clients.
_OURS: Final = frozenset(("result", "resource", "server", "file", "data"))
_WEB: Final = frozenset(("http", "https"))
_PREFIX: Final = "up+"


@dataclass(frozen=True, slots=True)
class Addresses:
    """The published URIs of a server, by the URI there, and the URIs and templates of others."""

    upstream: str
    uris: dict[str, str]
    templates: tuple[tuple[UriTemplate, bool], ...]
    others: frozenset[str]
    templates_of_others: tuple[UriTemplate, ...]
    read_at: float

    def here(self, uri: str) -> str:
        """Return the URI by which clients find a resource of the server."""
        if (published := self.uris.get(uri)) is not None:
            return published
        # Clients open addresses of the web themselves.
        is_kept = _scheme(uri) in _WEB
        for template, keeps in self.templates:
            if template.match(uri) is not None:
                is_kept = keeps
                break
        return uri if is_kept and not self._is_of_another(uri) else prefixed(self.upstream, uri)

    def _is_of_another(self, uri: str) -> bool:
        return uri in self.others or any(
            template.match(uri) is not None for template in self.templates_of_others
        )


_kept: dict[str, Addresses] = {}


def prefixed(upstream: str, uri: str) -> str:
    """Return a URI with the scheme of its server. Names of servers have no dots."""
    return f"{_PREFIX}{upstream.replace('_', '.')}:{uri}"


def proposed(upstream: str, uris: Iterable[str]) -> dict[str, str]:
    """Return the URI or template here for each of a server, before it is published."""
    # Drafts of two servers may be published in any order.
    drafts = Draft.objects.filter(kind__in=(Resource.KIND, ResourceTemplate.KIND))
    waiting = _of_others(upstream, drafts.values_list("values__request", "key"))
    taken = {_scheme(uri) for uri in (*_uris_of_others(upstream), *waiting)} | _OURS
    return {
        uri: prefixed(upstream, uri) if _scheme(uri) in taken or uri.startswith(_PREFIX) else uri
        for uri in uris
    }


async def of(upstream: str) -> Addresses:
    """Return the addresses of a server. Each process keeps them for a few seconds."""
    found = _kept.get(upstream)
    if found is None or time.monotonic() - found.read_at > KEPT_SECONDS:
        found = _kept[upstream] = await aquery(_read, upstream)
    return found


def _read(upstream: str) -> Addresses:
    resources = Resource.objects.filter(request__upstream=upstream).values_list("request", "uri")
    templates = ResourceTemplate.objects.filter(request__upstream=upstream)
    others = _uris_of_others(upstream)
    return Addresses(
        upstream,
        {str((request or {}).get("resource")): uri for request, uri in resources},
        tuple(_templates(templates.values_list("request", "uri_template"))),
        frozenset(others),
        tuple(
            template for template, _ in _templates(({"template": uri}, uri) for uri in others if "{" in uri)
        ),
        time.monotonic(),
    )


def _templates(rows: Iterable[tuple[Any, str]]) -> Iterable[tuple[UriTemplate, bool]]:
    for request, ours in rows:
        theirs = str((request or {}).get("template"))
        try:
            yield uri_template.compile(theirs), theirs == ours
        except ValueError:
            continue


def _uris_of_others(upstream: str) -> list[str]:
    rows = [
        *Resource.objects.values_list("request", "uri"),
        *ResourceTemplate.objects.values_list("request", "uri_template"),
    ]
    return _of_others(upstream, rows)


def _of_others(upstream: str, rows: Iterable[tuple[Any, str]]) -> list[str]:
    return [uri for request, uri in rows if not request or request.get("upstream") != upstream]


def _scheme(uri: str) -> str:
    return uri.partition(":")[0].lower()
