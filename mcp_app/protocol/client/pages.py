"""The pages of a list of another server, within limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mcp_app.protocol.client.faults import Kind, UpstreamFault

MAX_PAGES: Final = 200
MAX_ITEMS: Final = 2_000
MAX_BYTES: Final = 8 * 1024 * 1024
MAX_CURSOR: Final = 4_096


@dataclass(slots=True)
class Pages:
    """The items of the pages so far. ``member`` is the member of a result with the items."""

    member: str
    items: list[dict[str, Any]] = field(default_factory=list)
    _cursors: set[str] = field(default_factory=set)

    def take(self, result: Mapping[str, Any]) -> str | None:
        """Add a page. Return the cursor of the next, or None after the last page.

        Raise UpstreamFault for too many pages or items, a repeated cursor, or a page without a list.
        """
        found = result.get(self.member)
        if not isinstance(found, list):
            raise UpstreamFault(Kind.INVALID, f"answered without the list {self.member!r}.")
        self.items += [item for item in found if isinstance(item, dict)]
        if len(self.items) > MAX_ITEMS:
            raise UpstreamFault(Kind.TOO_LARGE, f"lists more than {MAX_ITEMS} {self.member}.")
        cursor = result.get("nextCursor")
        if not isinstance(cursor, str):
            return None
        if len(cursor) > MAX_CURSOR or cursor in self._cursors:
            raise UpstreamFault(Kind.INVALID, "sent a cursor that cannot be followed.")
        self._cursors.add(cursor)
        if len(self._cursors) >= MAX_PAGES:
            raise UpstreamFault(Kind.TOO_LARGE, f"has more than {MAX_PAGES} pages of {self.member}.")
        return cursor
