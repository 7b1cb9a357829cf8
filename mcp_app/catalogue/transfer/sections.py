"""Sections of a catalogue file with rows other than entries, which have no source."""

from __future__ import annotations

from typing import Any, Protocol

from mcp_app.catalogue.toolsets.section import TOOLSETS
from mcp_app.catalogue.transfer.limits import LIMITS


class Section(Protocol):
    """A list in a catalogue file, of rows that administrators make.

    ``name`` is the list's name in a file, ``kind`` the word for a row in differences, and ``key`` the field
    that identifies a row. ``model`` is the model of ``mcp_app`` whose permissions an import needs. Values are
    plain JSON without the key, row ids or file locations.
    """

    name: str
    kind: str
    key: str
    model: str

    def rows(self) -> dict[str, dict[str, Any]]:
        """Return the values of the stored rows by key."""
        ...

    def read(self, key: str, given: dict[str, Any]) -> dict[str, Any]:
        """Return all values of a row in a file, with defaults. Raises ValidationError for faulty values."""
        ...

    def write(self, key: str, values: dict[str, Any] | None, actor: Any) -> None:
        """Store a row, or delete it if ``values`` is None, within the transaction of the import.

        Raises ValidationError, like ``services`` for entries. A change of what clients are offered increments
        the catalogue revision.
        """
        ...


# Further sections are registered here. Import writes them after the entries, in this order.
SECTIONS: list[Section] = [TOOLSETS, LIMITS]
