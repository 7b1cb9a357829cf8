"""The tool that the form of a request shows: a new one, a stored one, or the draft of either."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any, Final

from mcp_app.admin.entries.http.form import HttpToolForm
from mcp_app.catalogue.changes.drafts import source_in, states_of
from mcp_app.catalogue.changes.states import service_values
from mcp_app.catalogue.sources.http.source import HTTP
from mcp_app.models import Draft, Tool

# Drafts of stored tools without these fields are edited on the form with all fields.
_OF_REQUEST: Final = frozenset(("request", "input_schema", "output_schema"))


@dataclass(frozen=True, slots=True)
class Edited:
    """A tool on the form: the stored tool and its draft, if they exist, and the values to change."""

    entry: Tool | None = None
    draft: Draft | None = None
    row: Tool | None = None

    def form(self, *args: Any, user: Any, **kwargs: Any) -> HttpToolForm:
        """Return the form of this tool."""
        return HttpToolForm(*args, user=user, entry=self.entry, row=self.row, **kwargs)

    def values(self, given: dict[str, Any]) -> dict[str, Any]:
        """Add the values of the draft for which the form has no field."""
        return given if self.draft is None else {**service_values(self.draft.values), **given}


def edited(entry: Tool | None, draft: Draft | None) -> Edited:
    """Return the tool for the form. Drafts of other sources are ignored."""
    if draft is None or source_in(draft, entry) is not HTTP:
        return Edited(entry, None, entry)
    row: Tool = HTTP.new(Tool) if entry is None else copy(entry)
    for name, value in service_values(states_of(draft, entry)[1]).items():
        setattr(row, name, value)
    return Edited(entry, draft, row)


def is_of_request(draft: Draft, entry: Tool | None) -> bool:
    """Return True if the draft is of an HTTP tool, and is either new or changes the request."""
    return source_in(draft, entry) is HTTP and (entry is None or not _OF_REQUEST.isdisjoint(draft.values))
