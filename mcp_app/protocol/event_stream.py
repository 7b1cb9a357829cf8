"""The states of an event stream and what may be appended in each; never how events are stored or sent.

A stream is *absent* until something opens it or appends to it, *open* while more may come, and *final* once
its terminal event is in. ``close`` is the server ending a connection for polling (T-POLL-03): the stream
goes on. Nothing follows the terminal event, so a second one can never exist; only expiry or the end of the
session removes the stream.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from mcp_app.protocol.state_table import look_up


class State(StrEnum):
    """Where a stream is in its life."""

    ABSENT = "absent"
    OPEN = "open"
    FINAL = "final"


class Event(StrEnum):
    """What happens to a stream; ``message``, ``close`` and ``final`` are also kinds of stored events."""

    OPEN = "open"
    MESSAGE = "message"
    CLOSE = "close"
    FINAL = "final"
    DROP = "drop"


APPENDABLE: Final = frozenset((Event.MESSAGE, Event.CLOSE, Event.FINAL))

TABLE: Final[dict[State, dict[str, State]]] = {
    State.ABSENT: {
        Event.OPEN: State.OPEN,
        Event.MESSAGE: State.OPEN,
        Event.CLOSE: State.OPEN,
        Event.FINAL: State.FINAL,
        Event.DROP: State.ABSENT,
    },
    State.OPEN: {
        Event.OPEN: State.OPEN,
        Event.MESSAGE: State.OPEN,
        Event.CLOSE: State.OPEN,
        Event.FINAL: State.FINAL,
        Event.DROP: State.ABSENT,
    },
    State.FINAL: {
        Event.DROP: State.ABSENT,
    },
}


def next_state(state: str, event: str) -> State:
    """The state after ``event``. Raises InvalidTransition, and ValueError for a word that is no state."""
    return look_up(TABLE, State(state), event)
