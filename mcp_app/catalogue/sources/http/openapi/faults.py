"""Problems of single operations: reasons for skipping one, and notes about what is sent differently."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Note:
    """A difference between the document and the tool. ``pointer`` is its place in the document."""

    pointer: str
    text: str

    def __str__(self) -> str:
        return f"{self.text} ({self.pointer})"


class Unconvertible(ValueError):
    """An operation that cannot become a tool, with the reason and a JSON pointer to its cause."""

    def __init__(self, pointer: str, reason: str) -> None:
        super().__init__(f"{reason} ({pointer})")
        self.pointer = pointer
        self.reason = reason
