"""Owns how lists show the lines of the message log that are no messages but record a state."""

from __future__ import annotations

from typing import Final, NamedTuple


class Mark(NamedTuple):
    """The sign in place of a message's arrow, the word in place of its outcome, and what the sign means."""

    sign: str
    word: str
    meaning: str


# The live console has the same in its ``line.js``.
SHOWN: Final = {
    "running": Mark("⋯", "running", "mark: no answer yet"),
    "waiting": Mark("⋯", "waiting", "mark: the call waits, no answer yet"),
    "resumed": Mark("↻", "resumed", "mark: the client came back for the rest of a stream"),
}
