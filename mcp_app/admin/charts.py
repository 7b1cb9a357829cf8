"""Owns the geometry of charts: numbers in, shapes of an SVG of 1000 by 100 out; all text is for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple

from django.utils.html import escape
from django.utils.safestring import SafeString

WIDTH: Final = 1000.0
HEIGHT: Final = 100.0
# Separates texts while they are escaped together; it is no text itself (ASCII, unit separator).
BETWEEN: Final = "\x1f"
STEPS: Final = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)


class Bars(NamedTuple):
    """The bars of one series as one path: a page has hundreds of them. Numbers are as SVG wants them."""

    tone: str
    path: str


class ChartLine(NamedTuple):
    """What joins points that follow each other."""

    tone: str
    points: str


class Touch(NamedTuple):
    """An invisible column over one point, as wide as the chart says, with what to tell of it."""

    x: str
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart, with the same numbers as a table for screen readers."""

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
    # When its first point begins (Unix time), how many seconds each is, and how the address of a time begins
    # that is chosen on it.
    begins: int = 0
    span: int = 0
    url: str = "?"

    # Written here: hundreds of points in a template are a fifth of the time of the first page.

    @property
    def touched(self) -> SafeString:
        """The columns that tell of their points."""
        width = _text(WIDTH / max(len(self.touches), 1))
        mark = (
            f'<rect class="mcp-touch" x="{{}}" y="0" width="{width}" height="100"><title>{{}}</title></rect>'
        )
        return _repeated(mark, [(touch.x, touch.text) for touch in self.touches])

    @property
    def table(self) -> SafeString:
        """The rows of the table."""
        cells = "<td>{}</td>" * (len(self.columns) - 1)
        return _repeated(f'<tr><th scope="row">{{}}</th>{cells}</tr>', self.rows)


def _repeated(markup: str, rows: Sequence[Sequence[str]]) -> SafeString:
    """The markup for each row, with its texts escaped: all of them at once, for there are a thousand."""
    texts = escape(BETWEEN.join(text.replace(BETWEEN, " ") for row in rows for text in row)).split(BETWEEN)
    return SafeString((markup * len(rows)).format(*texts))


def ceiling(highest: float) -> float:
    """The round number at which a scale ends: the next of STEPS times a power of ten."""
    if highest <= 0:
        return 1.0
    power = 1.0
    while power < highest:
        power *= 10
    while power / 10 >= highest:
        power /= 10
    return next(power / 10 * step for step in STEPS if power / 10 * step >= highest * 0.999999)


def bars(series: Sequence[tuple[str, Sequence[float]]], top: float) -> list[Bars]:
    """Stacked bars: the first series stands on the ground."""
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
    """A line through the middles of the columns, broken where there is no value."""
    step = WIDTH / len(values)
    placed = [(place, value) for place, value in enumerate(values) if value is not None]
    found = []
    for _, group in groupby(enumerate(placed), key=lambda item: item[1][0] - item[0]):
        joined = [(float(place), value) for _, (place, value) in group]
        if len(joined) == 1:  # so that a point by itself is seen
            joined = [(joined[0][0] - 0.3, joined[0][1]), (joined[0][0] + 0.3, joined[0][1])]
        points = [
            f"{_text((place + 0.5) * step)},{_text(HEIGHT - min(value / top, 1.0) * HEIGHT)}"
            for place, value in joined
        ]
        found.append(ChartLine(tone, " ".join(points)))
    return found


def touches(texts: Sequence[str]) -> list[Touch]:
    """Columns that tell of their point."""
    step = WIDTH / len(texts)
    return [Touch(_text(place * step), text) for place, text in enumerate(texts)]


def _text(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")
