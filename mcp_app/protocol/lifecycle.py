"""The states of a legacy session and what moves it from one to the next; never where sessions are kept.

A session is *new* until its ``initialize`` is answered, *initializing* until the client says
``notifications/initialized``, then *operating* until it *ended* by DELETE, expiry or an operator. While it
is initializing requests are served, because many clients do not wait (LIFE-05), but none of ours are sent
(LIFE-04). An ended session never comes back (SES-05).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from mcp_app.protocol.state_table import look_up


class State(StrEnum):
    """Where a session is in its life."""

    NEW = "new"
    INITIALIZING = "initializing"
    OPERATING = "operating"
    ENDED = "ended"


class Event(StrEnum):
    """What happens to a session."""

    INITIALIZE = "initialize"
    INITIALIZED = "initialized"
    REQUEST = "request"
    ASK = "ask"
    END = "end"


TABLE: Final[dict[State, dict[str, State]]] = {
    State.NEW: {
        Event.INITIALIZE: State.INITIALIZING,
        Event.END: State.ENDED,
    },
    State.INITIALIZING: {
        Event.INITIALIZED: State.OPERATING,
        Event.REQUEST: State.INITIALIZING,
        Event.END: State.ENDED,
    },
    State.OPERATING: {
        # A client that reconnects may say it again.
        Event.INITIALIZED: State.OPERATING,
        Event.REQUEST: State.OPERATING,
        Event.ASK: State.OPERATING,
        Event.END: State.ENDED,
    },
    State.ENDED: {
        Event.END: State.ENDED,
    },
}


def next_state(state: str, event: str) -> State:
    """The state after ``event``. Raises InvalidTransition, and ValueError for a word that is no state."""
    return look_up(TABLE, State(state), event)
