"""The catalogue for one caller: listing, look-up, matching and completion."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, NamedTuple

from mcp_app.catalogue.definitions.definition import CompletionSource
from mcp_app.catalogue.snapshots import completion
from mcp_app.catalogue.snapshots.entries import PromptEntry, ResourceEntry, ToolEntry
from mcp_app.catalogue.snapshots.snapshot import Catalogue
from mcp_app.protocol.errors import InvalidParams
from mcp_app.protocol.messages.server import Server


class CatalogueView(NamedTuple):
    """A snapshot for one caller. Entries that need a permission the caller lacks do not exist (TOOL-08).

    A view is immutable. A request uses one view from start to end, so all its steps see the same state.
    Longer-lived objects (session, event stream, subscription) store no view. They take a new view from
    ``Views`` for each access, so that an announced change is never answered from an older snapshot.
    ``permissions`` is any container. The snapshot caches encoded lists for all callers with the same visible
    entries. ``server`` describes the server to clients.
    """

    snapshot: Catalogue
    permissions: Container[str]
    server: Server

    @property
    def revision(self) -> int:
        """The revision of the newest change in this view."""
        return self.snapshot.revision

    def tool(self, name: str) -> ToolEntry | None:
        """Return the tool, or None if it does not exist for this caller."""
        entry = self.snapshot.tools.get(name)
        # The wire form of a tool that could not be built when it was first needed is empty.
        if entry is None or not entry.wire or (entry.permission and entry.permission not in self.permissions):
            return None
        return entry

    def prompt(self, name: str) -> PromptEntry | None:
        """Return the prompt, or None if it does not exist for this caller."""
        entry = self.snapshot.prompts.get(name)
        if entry is None or (entry.permission and entry.permission not in self.permissions):
            return None
        return entry

    def resource(self, uri: str) -> tuple[ResourceEntry, dict[str, str]] | None:
        """Return the resource and the variables of its template, or None.

        Exact URIs take precedence over the first matching template (TPL-04).
        """
        entry = self.snapshot.resources.get(uri)
        variables: dict[str, str] | None = {}
        if entry is None:
            entry, variables = self._matching(uri)
        if entry is None or (entry.permission and entry.permission not in self.permissions):
            return None
        return entry, variables or {}

    def _matching(self, uri: str) -> tuple[ResourceEntry | None, dict[str, str] | None]:
        withheld = self.snapshot.withheld
        if uri in withheld:
            return None, None
        for entry in self.snapshot.matching:
            if entry.match is not None and (variables := entry.match(uri)) is not None:
                return (None, None) if entry.uri in withheld else (entry, variables)
        return None, None

    def page(self, kind: str, version: str, cursor: str | None = None) -> bytes:
        """Return one page of ``tools``, ``prompts``, ``resources`` or ``templates`` as encoded JSON result.

        Raises InvalidParams for a cursor that this server did not issue (PAGE-02).
        """
        return self.snapshot.pages[kind].page(version, self.permissions, cursor)

    def built_page(self, kind: str, version: str, cursor: str | None = None) -> bytes | None:
        """Return what ``page`` returns, or None if entries may have to be built first, which takes long.

        Raises InvalidParams for a cursor that this server did not issue (PAGE-02).
        """
        return self.snapshot.pages[kind].built_page(version, self.permissions, cursor)

    async def complete(
        self, ref: Mapping[str, Any], argument_name: str, value: str, context_arguments: Mapping[str, str]
    ) -> completion.Completed:
        """Return ``(values, total, has_more)`` for an argument.

        Raises InvalidParams for unknown names (COMP-04).
        """
        names, sources = self._completable(ref)
        if argument_name not in names:
            raise InvalidParams(f"Unknown argument: {argument_name[:100]}")
        others = {name: text for name, text in context_arguments.items() if name in names}
        return await completion.complete(sources.get(argument_name), value, others)

    def _completable(self, ref: Mapping[str, Any]) -> tuple[Container[str], Mapping[str, CompletionSource]]:
        match ref:
            case {"type": "ref/prompt", "name": str(name)}:
                prompt = self.prompt(name)
                if prompt is None:
                    raise InvalidParams(f"Unknown prompt: {name[:200]}")
                return prompt.declared, prompt.completions
            case {"type": "ref/resource", "uri": str(uri)}:
                resource = self._referenced(uri)
                if resource is None:
                    raise InvalidParams(f"Unknown resource: {uri[:200]}")
                return resource.variables, resource.completions
        raise InvalidParams("'ref' must be {type: 'ref/prompt', name} or {type: 'ref/resource', uri}.")

    def _referenced(self, uri: str) -> ResourceEntry | None:
        """Return the template with exactly this text, else the resource with this URI (COMP-02)."""
        for entry in self.snapshot.templates:
            if entry.uri == uri:
                return entry if not entry.permission or entry.permission in self.permissions else None
        found = self.resource(uri)
        return found[0] if found else None
