"""What is wrong with a catalogue file, said once for every place at which it is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault: the entry (empty: the file itself), its field (empty: the whole entry), fault and remedy.

    All three may quote the file: code that displays them must make hidden characters visible.
    """

    entry: str
    field: str
    text: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.entry, self.field, self.text) if part)


class TransferRefused(Exception):
    """Nothing was read, written or changed; ``problems`` has all that is wrong."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)
