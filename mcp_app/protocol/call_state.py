"""The states of a call and its transitions; not where it runs or is stored.

A call is *accepted*, then *running* under an attempt, perhaps waiting as *input_required* for the client,
and ends exactly once as *completed*, *failed* or *cancelled*. When the lease of an attempt expired it is
*retried*: the call is accepted again. So it is when a task is *resumed*: one that asks ends its attempt, and
the client's answer begins another. A call that needs approval begins as *approval_needed*, from where
no attempt can start: it is *approved*, and then accepted like any other, or *refused*. Nothing leaves a
terminal state, so of a racing finish and cancel only the first one counts.

The writers of stored calls take the states of their compare-and-sets from ``Transition``.
"""

from __future__ import annotations

from enum import Enum, StrEnum, unique
from typing import Final


class State(StrEnum):
    """Where a call is in its life."""

    APPROVAL_NEEDED = "approval_needed"
    ACCEPTED = "accepted"
    RUNNING = "running"
    INPUT_REQUIRED = "input_required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


# No process runs such a call: a cancel ends it at once.
UNSTARTED: Final = (State.APPROVAL_NEEDED, State.ACCEPTED)
# An attempt works on it, or it waits for its client.
ACTIVE: Final = (State.RUNNING, State.INPUT_REQUIRED)
OPEN: Final = (*UNSTARTED, *ACTIVE)
TERMINAL: Final = frozenset(State) - frozenset(OPEN)


@unique
class Transition(Enum):
    """What happens to a call: the states in which it can, and the state that follows."""

    APPROVE = ((State.APPROVAL_NEEDED,), State.ACCEPTED)
    REFUSE = ((State.APPROVAL_NEEDED,), State.FAILED)
    START = ((State.ACCEPTED,), State.RUNNING)
    ASK = ((State.RUNNING,), State.INPUT_REQUIRED)
    ANSWER = ((State.INPUT_REQUIRED,), State.RUNNING)
    RESUME = ((State.INPUT_REQUIRED,), State.ACCEPTED)
    RETRY = (ACTIVE, State.ACCEPTED)
    # That a call asks and was answered is noted later than it happens, so it may end before that.
    COMPLETE = (ACTIVE, State.COMPLETED)
    FAIL = (ACTIVE, State.FAILED)
    CANCEL = (OPEN, State.CANCELLED)

    def __init__(self, before: tuple[State, ...], after: State) -> None:
        self.before = before
        self.after = after


_SHOWN: Final = {
    State.APPROVAL_NEEDED: "waiting for approval",
    State.ACCEPTED: "waiting",
    State.INPUT_REQUIRED: "waiting for client",
}


def shown_state(state: str) -> str:
    """A state in the words of pages: whatever does not run yet waits, and for what."""
    return _SHOWN.get(State(state), state)


def is_terminal(state: str) -> bool:
    """Whether the call has its one outcome."""
    return state in TERMINAL
