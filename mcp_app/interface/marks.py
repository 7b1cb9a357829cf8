"""Display of log lines that record a state instead of a message."""

from __future__ import annotations

from typing import Final, NamedTuple


class Mark(NamedTuple):
    """The sign in place of a message's arrow, the word in place of its outcome, and the sign's meaning."""

    sign: str
    word: str
    meaning: str


# ``line.js`` of the live console has the same table.
SHOWN: Final = {
    "running": Mark("⋯", "running", "mark: no answer yet"),
    "waiting": Mark("⋯", "waiting", "mark: the call waits, no answer yet"),
    "resumed": Mark("↻", "resumed", "mark: the client came back for the rest of a stream"),
}
