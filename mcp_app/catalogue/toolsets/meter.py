"""The token meter: the tools and tokens of the lists that a caller gets at each address.

The estimate divides the bytes of a definition by a number for each family of models. The numbers were
measured with published tokenizers on 900 tools of six public APIs (``docs/toolsets.md``).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from mcp_app import conf
from mcp_app.catalogue.definitions.tool_limits import BYTES_PER_TOKEN
from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.catalogue.snapshots.view import CatalogueView
from mcp_app.catalogue.toolsets.contents import tokens_of
from mcp_app.protocol.messages.server import ENDPOINT
from mcp_app.protocol.scopes import MCP

# Bytes of a definition for each token.
FAMILIES: Final = {"OpenAI": 4.2, "Anthropic": 4.0, "Gemini": 3.9}
# The addresses of one caller that pages show.
MOST_ADDRESSES: Final = 50


def estimates(tokens: int) -> list[tuple[str, int]]:
    """Return the tokens of each family of models for an estimate of ``tokens``."""
    return [(name, round(tokens * BYTES_PER_TOKEN / size)) for name, size in FAMILIES.items()]


@dataclass(frozen=True, slots=True)
class ListCost:
    """The lists of a caller at one address: their tools and the tokens of all lists.

    ``called`` is the number of tools with a call, or None if calls are not known. ``callable`` tools include
    those that are found by a search and not listed. ``unused`` is the part of the tools' tokens in percent
    that belongs to listed tools without a call.
    """

    path: str
    tools: int
    tokens: int
    callable: int
    called: int | None
    unused: int

    @property
    def families(self) -> list[tuple[str, int]]:
        """The estimated tokens for each family of models."""
        return estimates(self.tokens)


class Meter:
    """A measurement of lists in the current catalogue. It reads each definition once.

    ``called`` are the names of the tools that were called, or None if they are not known.
    """

    def __init__(self, called: Container[str] | None = None) -> None:
        self._whole = current_snapshot.refresh_now()
        self._views = current_snapshot.Views(conf.get().server)
        self._called = called
        self._tokens: dict[int, int] = {}

    def lists(
        self, permissions: Container[str], scopes: Container[str] | None = None, paths: Iterable[str] = ()
    ) -> Iterator[ListCost]:
        """Yield the cost at each of ``paths``, or else at all addresses, that a caller may use.

        ``scopes`` are those of the caller's credential, or None without a limit.
        """
        if scopes is not None and MCP not in scopes:
            return
        for path in paths or (ENDPOINT, *sorted(self._whole.toolsets)[:MOST_ADDRESSES]):
            view = self._views.of(permissions, path)
            if not (view.server.removed or view.server.refusal or view.server.fault):
                yield self._cost(view, path)

    def _cost(self, view: CatalogueView, path: str) -> ListCost:
        catalogue, search = view.snapshot, view.snapshot.search
        listed = catalogue.tools.values() if search is None else search.entries()
        found = {each.name for each in search.entries()} if search is not None else frozenset()
        tools = {each.name: self._of(each) for each in listed if _shown(view, each)}
        others = (*catalogue.prompts.values(), *catalogue.resources.values(), *catalogue.templates)
        usable = [each.name for each in catalogue.tools.values() if _shown(view, each)]
        usable = [name for name in usable if name not in found]
        called = None if self._called is None else {name for name in usable if name in self._called}
        total = sum(tools.values())
        unused = sum(size for name, size in tools.items() if called is not None and name not in called)
        return ListCost(
            path=path,
            tools=len(tools),
            tokens=total + sum(self._of(each) for each in others if _shown(view, each)),
            callable=len(usable),
            called=None if called is None else len(called),
            unused=round(100 * unused / total) if total and search is None else 0,
        )

    def _of(self, entry: Any) -> int:
        # The catalogue keeps its entries, so ids are not used again.
        if (found := self._tokens.get(id(entry))) is None:
            found = self._tokens[id(entry)] = tokens_of(entry)
        return found


def _shown(view: CatalogueView, entry: Any) -> bool:
    return not entry.permission or entry.permission in view.permissions
