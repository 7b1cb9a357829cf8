"""The states of a call and the transitions between them.

A call is first *accepted*, then *running* in an attempt, and it may wait for the client as
*input_required*. It ends exactly once, as *completed*, *failed* or *cancelled*. When the lease of an
attempt expires, the call is *retried*, which makes it accepted again. If a task asks its client, its
attempt ends. The client's answer *resumes* the task: it is accepted again, for a further attempt.

A call that needs approval starts as *approval_needed*. No attempt can start from this state. The call is
either *approved*, which makes it accepted like any other call, or *refused*. No transition starts from a
terminal state. If a call is finished and cancelled at the same time, only the first change counts.

Code that updates stored calls takes the states for its compare-and-sets from ``Transition``.
"""

from __future__ import annotations

from enum import Enum, StrEnum, unique
from typing import Final


class State(StrEnum):
    """The state of a call."""

    APPROVAL_NEEDED = "approval_needed"
    ACCEPTED = "accepted"
    RUNNING = "running"
    INPUT_REQUIRED = "input_required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


# No process runs these calls, so a cancellation ends them at once.
UNSTARTED: Final = (State.APPROVAL_NEEDED, State.ACCEPTED)
# An attempt runs the call, or the call waits for its client.
ACTIVE: Final = (State.RUNNING, State.INPUT_REQUIRED)
OPEN: Final = (*UNSTARTED, *ACTIVE)
TERMINAL: Final = frozenset(State) - frozenset(OPEN)


@unique
class Transition(Enum):
    """A transition of a call: the states that allow it, and the state that follows."""

    APPROVE = ((State.APPROVAL_NEEDED,), State.ACCEPTED)
    REFUSE = ((State.APPROVAL_NEEDED,), State.FAILED)
    START = ((State.ACCEPTED,), State.RUNNING)
    ASK = ((State.RUNNING,), State.INPUT_REQUIRED)
    ANSWER = ((State.INPUT_REQUIRED,), State.RUNNING)
    RESUME = ((State.INPUT_REQUIRED,), State.ACCEPTED)
    RETRY = (ACTIVE, State.ACCEPTED)
    # Questions and answers are recorded with a delay, so a call may end before its questions are recorded.
    COMPLETE = (ACTIVE, State.COMPLETED)
    FAIL = (ACTIVE, State.FAILED)
    CANCEL = (OPEN, State.CANCELLED)

    def __init__(self, before: tuple[State, ...], after: State) -> None:
        self.before = before
        self.after = after


_SHOWN: Final = {
    State.APPROVAL_NEEDED: "waiting for approval",
    State.ACCEPTED: "queued",
    State.INPUT_REQUIRED: "waiting for client input",
    State.COMPLETED: "succeeded",
}


def shown_state(state: str) -> str:
    """Return the text that pages show for a state. For a waiting call, it includes the reason."""
    return _SHOWN.get(State(state), state)


def is_terminal(state: str) -> bool:
    """Return True if the call has finished."""
    return state in TERMINAL
