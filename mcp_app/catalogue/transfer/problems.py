"""Problems of a catalogue file, with all their places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem with its remedy: entry (empty for the file), field (empty for the entry), text.

    All three may quote the file: code that displays them must make hidden characters visible.
    """

    entry: str
    field: str
    text: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.entry, self.field, self.text) if part)


class TransferRefused(Exception):
    """A refused transfer that changed nothing; ``problems`` lists all problems."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)
