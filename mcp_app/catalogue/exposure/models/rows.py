"""Lists and single rows of a model. Each takes one query, and all names in the query come from code."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson
from django.db.models import QuerySet

from mcp_app.catalogue.definitions.content import ToolError
from mcp_app.catalogue.exposure.models.columns import Filter, ModelColumn, Schema
from mcp_app.catalogue.exposure.models.pages import MAX_CURSOR, Order, cursor_after, place_of

USUAL_ROWS: Final = 20


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """An exposed model with all names that a query may use."""

    model: Any
    name: str
    columns: Mapping[str, ModelColumn]
    filters: Mapping[str, Filter]
    orders: Mapping[str, Order]
    limit: int
    queryset: Callable[[Any], Any] | None

    @property
    def key(self) -> ModelColumn:
        """The primary key."""
        return next(iter(self.orders.values())).key

    def page(self, given: dict[str, Any], context: Any) -> dict[str, Any]:
        """Return a page of ``rows``, and in ``next`` the cursor of the next page or None."""
        name = given.get("order") or next(iter(self.orders))
        order, size = self.orders[name], int(given.get("limit") or min(USUAL_ROWS, self.limit))
        wanted = {key: value for key, value in given.items() if key in self.filters and value is not None}
        found = self._all(context).filter(
            **{key: self.filters[key].value(value) for key, value in wanted.items()}
        )
        query = hashlib.sha256(orjson.dumps([self.name, name, sorted(wanted.items())])).hexdigest()[:16]
        if cursor := given.get("cursor"):
            found = found.filter(order.after(place_of(cursor, query, order)))
        place = (order.column.path, order.key.path)
        read = list(order.sorted(found).values(*dict.fromkeys((*self.columns, *place)))[: size + 1])
        rows = read[:size]
        last = tuple(rows[-1][path] for path in place) if len(read) > size else None
        return {
            "rows": [{path: row[path] for path in self.columns} for row in rows],
            "next": cursor_after((last[0], last[1]), query) if last else None,
        }

    def row(self, given: dict[str, Any], context: Any) -> dict[str, Any]:
        """Return one row by its key. Raises ToolError if the row does not exist."""
        key = self.key.value("pk", given["pk"])
        row = self._all(context).filter(pk=key).values(*self.columns).first()
        if row is None:
            raise ToolError(f"There is no {self.model._meta.verbose_name} with the key {given['pk']!r:.100}.")
        return dict(row)

    def _all(self, context: Any) -> QuerySet[Any]:
        found = self.model._default_manager.all() if self.queryset is None else self.queryset(context)
        # Cursors need the order of this class, so an order of the project is removed.
        ordered: QuerySet[Any] = found.order_by()
        return ordered

    def page_schema(self) -> Schema:
        """Return the input schema of a list."""
        properties: Schema = {name: each.schema() for name, each in self.filters.items()}
        if len(self.orders) > 1:
            properties["order"] = {"enum": list(self.orders), "default": next(iter(self.orders))}
        usual = min(USUAL_ROWS, self.limit)
        properties["limit"] = {"type": "integer", "minimum": 1, "maximum": self.limit, "default": usual}
        cursor = "The member next of the page before; with the same filters and order."
        properties["cursor"] = {"type": "string", "maxLength": MAX_CURSOR, "description": cursor}
        return {"type": "object", "properties": properties, "additionalProperties": False}

    def key_schema(self) -> Schema:
        """Return the input schema for one row."""
        key = self.key
        schema: Schema = {**(key.kind.schema if key.kind else {}), "description": "The row's key."}
        return {
            "type": "object",
            "properties": {"pk": schema},
            "required": ["pk"],
            "additionalProperties": False,
        }

    def row_schema(self) -> Schema:
        """Return the output schema of a row."""
        properties = {path: column.output() for path, column in self.columns.items()}
        return {"type": "object", "properties": properties, "required": list(properties)}
