from __future__ import annotations

import pytest

from mcp_app.protocol.call_state import ACTIVE, OPEN, TERMINAL, UNSTARTED, State, Transition, is_terminal


def test_every_state_is_reachable() -> None:
    reached = set(UNSTARTED)
    while more := {one.after for one in Transition if reached & set(one.before)} - reached:
        reached |= more
    assert reached == set(State)


@pytest.mark.parametrize("state", State)
def test_exactly_open_states_have_transitions(state: State) -> None:
    can_be_left = any(state in one.before for one in Transition)
    assert can_be_left is (state in OPEN) is not is_terminal(state)


def test_attempt_starts_only_from_accepted() -> None:
    leading_in = {one for one in Transition if one.after in ACTIVE and not set(one.before) <= set(ACTIVE)}
    assert leading_in == {Transition.START}
    assert Transition.START.before == (State.ACCEPTED,)


@pytest.mark.parametrize("state", OPEN)
def test_open_call_can_be_cancelled(state: State) -> None:
    assert state in Transition.CANCEL.before
    assert Transition.CANCEL.after in TERMINAL
