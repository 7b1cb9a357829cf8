"""Pages of rows by key, with opaque signed cursors. Queries use neither COUNT nor OFFSET."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any, Final

from django.core import signing
from django.db.models import F, Q, QuerySet

from mcp_app.catalogue.definitions.content import ToolError
from mcp_app.catalogue.exposure.models.columns import ModelColumn

MAX_CURSOR: Final = 8_000
_REFUSED: Final = (
    "cursor: not one of this list. Pass the member next of the page before as it is, with the same filters "
    "and order, or leave cursor out to begin anew."
)


@dataclass(frozen=True, slots=True)
class Order:
    """An order by ``column`` and then by key, which makes it total. Rows without a value come last.

    ``by_key`` is True if the column is the key.
    """

    column: ModelColumn
    key: ModelColumn
    descending: bool
    by_key: bool

    def sorted(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows in this order."""
        first = F(self.column.path)
        if self.by_key:
            return rows.order_by(first.desc() if self.descending else first.asc())
        by = first.desc(nulls_last=True) if self.descending else first.asc(nulls_last=True)
        return rows.order_by(by, F(self.key.path).asc())

    def after(self, place: tuple[Any, Any]) -> Q:
        """Return the condition for rows after the row with this value and key."""
        value, key = place
        beyond = "lt" if self.descending else "gt"
        if self.by_key:
            return Q(**{f"{self.key.path}__{beyond}": key})
        later = Q(**{f"{self.key.path}__gt": key})
        missing = Q(**{f"{self.column.path}__isnull": True})
        if value is None:
            return missing & later
        return (
            Q(**{f"{self.column.path}__{beyond}": value}) | Q(**{self.column.path: value}) & later | missing
        )


def cursor_after(place: tuple[Any, Any], query: Any) -> str:
    """Return the cursor for the rows after a row. It is valid for this query only."""
    return signing.dumps([query, *map(_plain, place)], salt=__name__, compress=True)


def place_of(cursor: str, query: Any, order: Order) -> tuple[Any, Any]:
    """Parse a cursor into value and key. Raises ToolError if the cursor is invalid."""
    try:
        made_for, value, key = signing.loads(cursor, salt=__name__)
    except (signing.BadSignature, ValueError, TypeError):
        raise ToolError(_REFUSED) from None
    if made_for != query:
        raise ToolError(_REFUSED)
    return (
        None if value is None else order.column.value("cursor", value),
        order.key.value("cursor", key),
    )


def _plain(value: Any) -> Any:
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    return value if value is None or isinstance(value, (bool, int, float)) else str(value)
