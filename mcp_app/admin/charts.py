"""Geometry of charts: converts numbers to the shapes of a 1000 by 100 SVG, with formatted texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple

from django.utils.html import escape
from django.utils.safestring import SafeString

WIDTH: Final = 1000.0
HEIGHT: Final = 100.0
# Joins texts so that one call escapes them all. The ASCII unit separator never occurs in texts.
BETWEEN: Final = "\x1f"
STEPS: Final = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)


class Bars(NamedTuple):
    """The bars of one series as one SVG path, since a page has hundreds of bars."""

    tone: str
    path: str


class ChartLine(NamedTuple):
    """A polyline through consecutive points."""

    tone: str
    points: str


class Touch(NamedTuple):
    """An invisible column over one point, with its tooltip."""

    x: str
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart, with the same numbers as a table for screen readers."""

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
    # Start of the first point (Unix time), seconds per point, and the URL prefix of a range selected on the
    # chart.
    begins: int = 0
    span: int = 0
    url: str = "?"

    # Rendered here: hundreds of points in a template took a fifth of the first page's time.

    @property
    def touched(self) -> SafeString:
        """Tooltip columns as SVG."""
        width = _text(WIDTH / max(len(self.touches), 1))
        mark = (
            f'<rect class="mcp-touch" x="{{}}" y="0" width="{width}" height="100"><title>{{}}</title></rect>'
        )
        return _repeated(mark, [(touch.x, touch.text) for touch in self.touches])

    @property
    def table(self) -> SafeString:
        """Table rows as HTML."""
        cells = "<td>{}</td>" * (len(self.columns) - 1)
        return _repeated(f'<tr><th scope="row">{{}}</th>{cells}</tr>', self.rows)


def _repeated(markup: str, rows: Sequence[Sequence[str]]) -> SafeString:
    """Return ``markup`` filled for each row.

    Escapes all texts in one call, since a chart has up to a thousand.
    """
    texts = escape(BETWEEN.join(text.replace(BETWEEN, " ") for row in rows for text in row)).split(BETWEEN)
    return SafeString((markup * len(rows)).format(*texts))


def ceiling(highest: float) -> float:
    """Return the round number at which an axis ends: the next of STEPS times a power of ten."""
    if highest <= 0:
        return 1.0
    power = 1.0
    while power < highest:
        power *= 10
    while power / 10 >= highest:
        power /= 10
    return next(power / 10 * step for step in STEPS if power / 10 * step >= highest * 0.999999)


def bars(series: Sequence[tuple[str, Sequence[float]]], top: float) -> list[Bars]:
    """Return stacked bars, the first series at the bottom."""
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
    """Return a line through the centers of the columns, interrupted at missing values."""
    step = WIDTH / len(values)
    placed = [(place, value) for place, value in enumerate(values) if value is not None]
    found = []
    for _, group in groupby(enumerate(placed), key=lambda item: item[1][0] - item[0]):
        joined = [(float(place), value) for _, (place, value) in group]
        if len(joined) == 1:  # makes an isolated point visible
            joined = [(joined[0][0] - 0.3, joined[0][1]), (joined[0][0] + 0.3, joined[0][1])]
        points = [
            f"{_text((place + 0.5) * step)},{_text(HEIGHT - min(value / top, 1.0) * HEIGHT)}"
            for place, value in joined
        ]
        found.append(ChartLine(tone, " ".join(points)))
    return found


def touches(texts: Sequence[str]) -> list[Touch]:
    """Return tooltip columns of equal width."""
    step = WIDTH / len(texts)
    return [Touch(_text(place * step), text) for place, text in enumerate(texts)]


def _text(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")
