"""Columns of lists and read-only fields that show a field of a row.

They do not depend on any model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.utils.html import format_html
from django.utils.safestring import SafeString

from mcp_app.admin.markup import json_block, relative
from mcp_app.interface.text import marked, visible

Column = Callable[[Any, Model], SafeString]


def text_column(description: str, field: str, *, ordering: Any = None, empty: str = "") -> Column:
    """Return a column for untrusted text, or for a related row with an untrusted name."""
    return _column(description, ordering, lambda row: visible(getattr(row, field) or empty))


def who_column(description: str = "user") -> Column:
    """Return a column for a principal.

    It shows the linked name that ``name_callers`` attached to the row, with the principal's key as tooltip.
    """

    def shown(row: Any) -> SafeString:
        name = getattr(row, "caller", None) or visible(row.principal)
        return format_html('<span title="{}">{}</span>', marked(row.principal), name)

    return _column(description, "principal", shown)


def time_column(description: str, field: str, *, sortable: bool = True, empty: str = "never") -> Column:
    """Return a column for a time: relative in lists, exact in forms, ``empty`` without one."""
    order = field if sortable else None
    return _column(description, order, lambda row: relative(getattr(row, field), empty))


def json_column(description: str, field: str) -> Column:
    """Return a column that shows a whole JSON value."""
    return _column(description, None, lambda row: json_block(getattr(row, field)))


def _column(description: str, ordering: Any, shown: Callable[[Model], SafeString]) -> Column:
    @admin.display(description=description, ordering=ordering)
    def column(_: Any, row: Model) -> SafeString:
        return shown(row)

    return column
