"""Owns the geometry of charts: numbers in, shapes of an SVG of 1000 by 100 out; all text is for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple

WIDTH: Final = 1000.0
HEIGHT: Final = 100.0
STEPS: Final = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)


class Bar(NamedTuple):
    """A rectangle; its numbers are written as SVG wants them in any language."""

    tone: str
    x: str
    y: str
    width: str
    height: str


class Line(NamedTuple):
    """What joins points that follow each other."""

    tone: str
    points: str


class Touch(NamedTuple):
    """An invisible column over one point, with what to tell of it."""

    x: str
    width: str
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
    bars: list[Bar]
    lines: list[Line]
    touches: list[Touch]
    columns: list[str]
    rows: list[list[str]]
    # When its first point begins (Unix time), how many seconds each is, and how the address of a time begins
    # that is chosen on it.
    begins: int = 0
    span: int = 0
    url: str = "?"


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


def bars(series: Sequence[tuple[str, Sequence[float]]], top: float) -> list[Bar]:
    """Stacked bars: the first series stands on the ground."""
    count = len(series[0][1])
    step = WIDTH / count
    found = []
    for place in range(count):
        base = HEIGHT
        for tone, values in series:
            height = min(values[place] / top, 1.0) * HEIGHT
            if height > 0:
                base -= height
                found.append(Bar(tone, _text(place * step), _text(base), _text(step * 0.82), _text(height)))
    return found


def line(tone: str, values: Sequence[float | None], top: float) -> list[Line]:
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
        found.append(Line(tone, " ".join(points)))
    return found


def touches(texts: Sequence[str]) -> list[Touch]:
    """Columns that tell of their point."""
    step = WIDTH / len(texts)
    return [Touch(_text(place * step), _text(step), text) for place, text in enumerate(texts)]


def _text(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")
