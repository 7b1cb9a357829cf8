"""The states of a call and what moves it from one to the next; never who runs it or where it is stored.

A call is *accepted*, then *running* under an attempt, perhaps waiting as *input_required* for the client,
and ends exactly once as *completed*, *failed* or *cancelled*. When the lease of an attempt expired it is
*retried*: the call is accepted again. So it is when a task is *resumed*: one that asks ends its attempt, and
the client's answer begins another. A call that somebody has to allow begins as *approval_needed*, from where
no attempt can start: it is *approved*, and then accepted like any other, or it fails. Nothing leaves a
terminal state, so of a racing finish and cancel only the first one counts.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from mcp_app.protocol.state_table import look_up


class State(StrEnum):
    """Where a call is in its life."""

    APPROVAL_NEEDED = "approval_needed"
    ACCEPTED = "accepted"
    RUNNING = "running"
    INPUT_REQUIRED = "input_required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Event(StrEnum):
    """What happens to a call."""

    APPROVE = "approve"
    START = "start"
    ASK = "ask"
    ANSWER = "answer"
    RESUME = "resume"
    RETRY = "retry"
    COMPLETE = "complete"
    FAIL = "fail"
    CANCEL = "cancel"


TERMINAL: Final = frozenset((State.COMPLETED, State.FAILED, State.CANCELLED))
# Nobody works on such a call: a cancel ends it at once.
UNSTARTED: Final = frozenset((State.APPROVAL_NEEDED, State.ACCEPTED))

TABLE: Final[dict[State, dict[str, State]]] = {
    State.APPROVAL_NEEDED: {
        Event.APPROVE: State.ACCEPTED,
        Event.FAIL: State.FAILED,
        Event.CANCEL: State.CANCELLED,
    },
    State.ACCEPTED: {
        Event.START: State.RUNNING,
        Event.FAIL: State.FAILED,
        Event.CANCEL: State.CANCELLED,
    },
    State.RUNNING: {
        Event.ASK: State.INPUT_REQUIRED,
        Event.RETRY: State.ACCEPTED,
        Event.COMPLETE: State.COMPLETED,
        Event.FAIL: State.FAILED,
        Event.CANCEL: State.CANCELLED,
    },
    State.INPUT_REQUIRED: {
        Event.ANSWER: State.RUNNING,
        Event.RESUME: State.ACCEPTED,
        Event.RETRY: State.ACCEPTED,
        Event.FAIL: State.FAILED,
        Event.CANCEL: State.CANCELLED,
    },
    State.COMPLETED: {},
    State.FAILED: {},
    State.CANCELLED: {},
}


def next_state(state: str, event: str) -> State:
    """The state after ``event``. Raises InvalidTransition, and ValueError for a word that is no state."""
    return look_up(TABLE, State(state), event)


def is_terminal(state: str) -> bool:
    """Whether the call has its one outcome."""
    return state in TERMINAL
