"""Geometry of charts: numbers become shapes in an SVG of 1000 by 100 units, with formatted texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple

from django.utils.html import escape
from django.utils.safestring import SafeString

WIDTH: Final = 1000.0
HEIGHT: Final = 100.0
# Separator of texts that are joined so that one call escapes them all. Texts never contain the ASCII unit
# separator.
BETWEEN: Final = "\x1f"
STEPS: Final = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)


class Bars(NamedTuple):
    """The bars of a series, combined into one SVG path because a page has hundreds of bars."""

    tone: str
    path: str


class ChartLine(NamedTuple):
    """A polyline through consecutive points. An isolated point is a line of no length: its caps are a dot."""

    tone: str
    points: str
    is_dot: bool


class Touch(NamedTuple):
    """An invisible column over a point, which shows the point's tooltip."""

    x: str
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart. Screen readers get the same numbers as a table."""

    name: str
    title: str
    summary: str
    top: str
    first: str
    last: str
    legend: list[tuple[str, str]]
    bars: list[Bars]
    lines: list[ChartLine]
    touches: list[Touch]
    columns: list[str]
    rows: list[list[str]]
    # Start of the first point (Unix time), seconds per point, and the beginning of the URL for a range that
    # the user selects on the chart.
    begins: int = 0
    span: int = 0
    url: str = "?"

    # Rendered in Python, because hundreds of points in a template took a fifth of the time of the dashboard.

    @property
    def touched(self) -> SafeString:
        """The columns with tooltips as SVG elements."""
        width = _text(WIDTH / max(len(self.touches), 1))
        mark = (
            f'<rect class="mcp-touch" x="{{}}" y="0" width="{width}" height="100"><title>{{}}</title></rect>'
        )
        return _repeated(mark, [(touch.x, touch.text) for touch in self.touches])

    @property
    def table(self) -> SafeString:
        """The rows of the table as HTML."""
        cells = "<td>{}</td>" * (len(self.columns) - 1)
        return _repeated(f'<tr><th scope="row">{{}}</th>{cells}</tr>', self.rows)


def _repeated(markup: str, rows: Sequence[Sequence[str]]) -> SafeString:
    """Return ``markup`` once for each row, filled with the texts of the row.

    One call escapes all texts, because a chart has up to a thousand of them.
    """
    texts = escape(BETWEEN.join(text.replace(BETWEEN, " ") for row in rows for text in row)).split(BETWEEN)
    return SafeString((markup * len(rows)).format(*texts))


def ceiling(highest: float) -> float:
    """Return the number at which an axis ends.

    It is a product of one of STEPS and a power of ten, and at least ``highest``.
    """
    if highest <= 0:
        return 1.0
    power = 1.0
    while power < highest:
        power *= 10
    while power / 10 >= highest:
        power /= 10
    return next(power / 10 * step for step in STEPS if power / 10 * step >= highest * 0.999999)


def bars(series: Sequence[tuple[str, Sequence[float]]], top: float) -> list[Bars]:
    """Return stacked bars. The first series is at the bottom."""
    count = len(series[0][1])
    step = WIDTH / count
    width, found = _text(step * 0.82), []
    bases = [HEIGHT] * count
    for tone, values in series:
        path = []
        for place, value in enumerate(values):
            height = min(value / top, 1.0) * HEIGHT
            if height > 0:
                bases[place] -= height
                path.append(f"M{_text(place * step)} {_text(bases[place])}h{width}v{_text(height)}h-{width}z")
        if path:
            found.append(Bars(tone, "".join(path)))
    return found


def line(tone: str, values: Sequence[float | None], top: float) -> list[ChartLine]:
    """Return lines through the centers of the columns. Missing values interrupt the line."""
    step = WIDTH / len(values)
    placed = [(place, value) for place, value in enumerate(values) if value is not None]
    found = []
    for _, group in groupby(enumerate(placed), key=lambda item: item[1][0] - item[0]):
        joined = [(place, value) for _, (place, value) in group]
        is_dot = len(joined) == 1
        points = [
            f"{_text((place + 0.5) * step)},{_text(HEIGHT - min(value / top, 1.0) * HEIGHT)}"
            for place, value in joined * (2 if is_dot else 1)
        ]
        found.append(ChartLine(tone, " ".join(points), is_dot))
    return found


def touches(texts: Sequence[str]) -> list[Touch]:
    """Return tooltip columns of equal width, one for each text."""
    step = WIDTH / len(texts)
    return [Touch(_text(place * step), text) for place, text in enumerate(texts)]


def _text(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")
