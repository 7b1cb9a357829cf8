"""Problems of a catalogue file, with the entry and field of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem and its remedy. ``entry`` is empty for the whole file, ``field`` for the whole entry.

    All texts may quote the file, so code that displays them must make hidden characters visible.
    """

    entry: str
    field: str
    text: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.entry, self.field, self.text) if part)


class TransferRefused(Exception):
    """A refused transfer, which changed nothing. ``problems`` lists all problems."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)
