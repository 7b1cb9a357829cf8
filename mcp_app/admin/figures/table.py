"""Owns tables of figures: rows that are sorted by any column, as a page shows them and as CSV."""

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

# A spreadsheet takes a cell that begins so for a formula, and a client may choose what it begins with.
FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class FigureRow:
    """What was counted of one name; ``urls`` lead to the messages of each number, ``url`` to who called."""

    name: str
    calls: CallFigures
    waited: float | None = None
    note: str = ""
    urls: dict[str, str] = field(default_factory=dict)
    url: str = ""


class FigureColumn(NamedTuple):
    """One column of numbers; those that are None are sorted last."""

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
    """One number, and where the messages are that it counts."""

    title: str
    text: str
    url: str


class Head(NamedTuple):
    """A heading that sorts; ``order`` is how the table is sorted by it, as ARIA says it."""

    title: str
    url: str
    order: str


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of one page, sorted."""

    title: str
    first: str
    rows: list[FigureRow]
    order: str


def lines(rows: Iterable[FigureRow]) -> list[tuple[FigureRow, list[Cell]]]:
    """Each row with its cells."""
    return [(row, [_cell(column, row) for column in COLUMNS]) for row in rows]


def _cell(column: FigureColumn, row: FigureRow) -> Cell:
    number = column.number(row)
    return Cell(column.title, column.text(number), row.urls.get(column.key, "") if number else "")


def sorted_rows(rows: Sequence[FigureRow], order: str) -> list[FigureRow]:
    """By a column, or by ``name``; downwards with a minus before it. Equal ones stay in their order."""
    key, downwards = order.lstrip("-"), order.startswith("-")
    if key == "name":
        return sorted(rows, key=lambda row: row.name, reverse=downwards)
    number = next(column.number for column in COLUMNS if column.key == key)
    counted = [(number(row), row) for row in rows]
    known = [(value, row) for value, row in counted if value is not None]
    known.sort(key=lambda pair: pair[0], reverse=downwards)
    return [row for _, row in known] + [row for value, row in counted if value is None]


def order_of(asked: str) -> str:
    """What an address asks to sort by, if there is such a column."""
    return asked if asked.removeprefix("-") in ORDERS else DEFAULT_ORDER


def heads(table: Table, query: dict[str, str]) -> list[Head]:
    """The headings, each a link that sorts by it, and the other way round the second time."""
    found = []
    for key, title in (("name", table.first), *((column.key, column.title) for column in COLUMNS)):
        is_sorted, downwards = table.order.removeprefix("-") == key, table.order.startswith("-")
        # Names are read from the beginning, numbers from the highest.
        turned = not downwards if is_sorted else key != "name"
        url = "?" + urlencode({**query, "sort": ("-" if turned else "") + key})
        order = ("descending" if downwards else "ascending") if is_sorted else ""
        found.append(Head(title, url, order))
    return found


def as_csv(table: Table) -> str:
    """The table with plain numbers: times in seconds, rates as a share of 1."""
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
