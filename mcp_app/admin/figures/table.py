"""Tables of statistics. Their rows can be sorted by any column and written as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from django.utils import timezone
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from mcp_app.admin.figures.asked import View
from mcp_app.admin.markup import bytes_text, percentile_text, seconds_text, share_text
from mcp_app.auth.time_zone import shown_zone
from mcp_app.interface.text import marked
from mcp_app.message_log.traffic import CallFigures
from mcp_app.models.rollup import BOUNDS

# Spreadsheets treat cells that begin with these characters as formulas. Clients choose their own names and
# could send such text.
FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class FigureRow:
    """The calls of a tool, client, user or point in time.

    ``urls`` link the numbers to the counted messages, by column. ``html`` is the name with links to its
    pages. ``time`` is the begin and the end of a point in time.
    """

    name: str
    calls: CallFigures
    waited: float | None = None
    note: str = ""
    urls: dict[str, str] = field(default_factory=dict)
    html: SafeString | None = None
    time: tuple[datetime, datetime] | None = None


class FigureColumn(NamedTuple):
    """A column of numbers. Rows without a value come last in any sort order.

    ``unit`` is the unit in CSV files, whose numbers have none beside them.
    """

    key: str
    title: str
    unit: str
    number: Callable[[FigureRow], float | None]
    text: Callable[[float | None], str]

    @property
    def csv_title(self) -> str:
        """The heading in CSV files."""
        return f"{self.title} ({self.unit})" if self.unit else self.title


def _count(number: float | None) -> str:
    return f"{number or 0:,.0f}"


COLUMNS: Final = (
    FigureColumn("calls", "Calls", "", lambda row: row.calls.all, _count),
    FigureColumn("failed", "Failed", "", lambda row: row.calls.failed, _count),
    FigureColumn("rate", "Error rate", "0 to 1", lambda row: row.calls.error_rate, share_text),
    FigureColumn("refused", "Refused", "", lambda row: row.calls.refused, _count),
    FigureColumn("cancelled", "Cancelled", "", lambda row: row.calls.cancelled, _count),
    FigureColumn("p50", "p50", "s", lambda row: row.calls.p50, percentile_text),
    FigureColumn("p95", "p95", "s", lambda row: row.calls.p95, percentile_text),
    FigureColumn("time", "Total time", "s", lambda row: row.calls.ms / 1000, seconds_text),
    FigureColumn("data", "Data", "bytes", lambda row: row.calls.size, bytes_text),
    FigureColumn("wait", "Queue wait", "s", lambda row: row.waited, seconds_text),
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


def as_csv(table: Table, view: View, since: datetime, until: datetime) -> str:
    """Return the table as CSV with plain numbers.

    Each row names its tool or caller, its period and the time zone, so that files can be joined.
    """
    written = io.StringIO()
    file = csv.writer(written)
    names = [title for title, _ in view.names("")]
    file.writerow([*names, "From", "To", "Time zone", *(column.csv_title for column in COLUMNS)])
    for row in table.rows:
        callers = [_harmless(name) for _, name in view.names(row.name)]
        begin_and_end = [f"{timezone.localtime(at):%Y-%m-%d %H:%M}" for at in row.time or (since, until)]
        numbers = [_csv_number(column, row) for column in COLUMNS]
        file.writerow([*callers, *begin_and_end, shown_zone(), *numbers])
    return written.getvalue()


def _csv_number(column: FigureColumn, row: FigureRow) -> str:
    number = column.number(row)
    if number is None:
        return ""
    if column.text is percentile_text and number < BOUNDS[0]:
        # The histogram does not measure shorter durations.
        return f"<{BOUNDS[0]:g}"
    # Sums of bytes have more digits than measured numbers.
    return f"{number:.0f}" if number == int(number) else f"{number:.6g}"


def _harmless(name: str) -> str:
    shown = marked(name)
    return f"'{shown}" if shown.startswith(FORMULA) else shown
