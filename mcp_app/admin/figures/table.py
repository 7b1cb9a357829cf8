"""Tables of statistics. Their rows can be sorted by any column and written as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from django.utils.http import urlencode

from mcp_app.admin.markup import seconds_text, share_text
from mcp_app.interface.text import marked
from mcp_app.message_log.traffic import CallFigures

# Spreadsheets treat cells that begin with these characters as formulas. Clients choose their own names and
# could send such text.
FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class FigureRow:
    """The calls of a tool, client, person or point in time.

    ``urls`` link the numbers to the counted messages, by column. ``url`` links a tool to its callers.
    """

    name: str
    calls: CallFigures
    waited: float | None = None
    note: str = ""
    urls: dict[str, str] = field(default_factory=dict)
    url: str = ""


class FigureColumn(NamedTuple):
    """A column of numbers. Rows without a value come last in any sort order."""

    key: str
    title: str
    number: Callable[[FigureRow], float | None]
    text: Callable[[float | None], str]


def _count(number: float | None) -> str:
    return f"{number or 0:,.0f}"


COLUMNS: Final = (
    FigureColumn("calls", "Calls", lambda row: row.calls.all, _count),
    FigureColumn("failed", "Failed", lambda row: row.calls.failed, _count),
    FigureColumn("rate", "Error rate", lambda row: row.calls.error_rate, share_text),
    FigureColumn("cancelled", "Cancelled", lambda row: row.calls.cancelled, _count),
    FigureColumn("p50", "p50", lambda row: row.calls.p50, seconds_text),
    FigureColumn("p95", "p95", lambda row: row.calls.p95, seconds_text),
    FigureColumn("wait", "Queue wait", lambda row: row.waited, seconds_text),
)
ORDERS: Final = {"name", *(column.key for column in COLUMNS)}
DEFAULT_ORDER: Final = "-calls"


class Cell(NamedTuple):
    """A number with a link to the messages that it counts."""

    title: str
    text: str
    url: str


class Head(NamedTuple):
    """A heading that sorts by its column. ``order`` is the value of the attribute ``aria-sort``."""

    title: str
    url: str
    order: str


@dataclass(frozen=True, slots=True)
class Table:
    """The sorted rows of a view."""

    title: str
    first: str
    rows: list[FigureRow]
    order: str


def lines(rows: Iterable[FigureRow]) -> list[tuple[FigureRow, list[Cell]]]:
    """Return each row with its cells."""
    return [(row, [_cell(column, row) for column in COLUMNS]) for row in rows]


def _cell(column: FigureColumn, row: FigureRow) -> Cell:
    number = column.number(row)
    return Cell(column.title, column.text(number), row.urls.get(column.key, "") if number else "")


def sorted_rows(rows: Sequence[FigureRow], order: str) -> list[FigureRow]:
    """Sort rows by a column, or by ``name``.

    A leading minus sorts in descending order. Equal rows stay in the given order.
    """
    key, downwards = order.lstrip("-"), order.startswith("-")
    if key == "name":
        return sorted(rows, key=lambda row: row.name, reverse=downwards)
    number = next(column.number for column in COLUMNS if column.key == key)
    counted = [(number(row), row) for row in rows]
    known = [(value, row) for value, row in counted if value is not None]
    known.sort(key=lambda pair: pair[0], reverse=downwards)
    return [row for _, row in known] + [row for value, row in counted if value is None]


def order_of(asked: str) -> str:
    """Return the requested sort order if it is valid, or the default order."""
    return asked if asked.removeprefix("-") in ORDERS else DEFAULT_ORDER


def heads(table: Table, query: dict[str, str]) -> list[Head]:
    """Return the headings. Each links to the order by its column. That of the current column reverses it."""
    found = []
    for key, title in (("name", table.first), *((column.key, column.title) for column in COLUMNS)):
        is_sorted, downwards = table.order.removeprefix("-") == key, table.order.startswith("-")
        # The first click sorts names in ascending and numbers in descending order.
        turned = not downwards if is_sorted else key != "name"
        url = "?" + urlencode({**query, "sort": ("-" if turned else "") + key})
        order = ("descending" if downwards else "ascending") if is_sorted else ""
        found.append(Head(title, url, order))
    return found


def as_csv(table: Table) -> str:
    """Return the table as CSV with plain numbers. Times are in seconds, and rates are fractions of 1."""
    written = io.StringIO()
    lines = csv.writer(written)
    lines.writerow([table.first, *(column.title for column in COLUMNS)])
    for row in table.rows:
        numbers = [column.number(row) for column in COLUMNS]
        lines.writerow([_harmless(row.name), *("" if each is None else f"{each:.6g}" for each in numbers)])
    return written.getvalue()


def _harmless(name: str) -> str:
    shown = marked(name)
    return f"'{shown}" if shown.startswith(FORMULA) else shown
