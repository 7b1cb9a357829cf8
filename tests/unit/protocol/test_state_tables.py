from __future__ import annotations

from enum import StrEnum
from types import ModuleType

import pytest

from mcp_app.protocol import call_state, event_stream, lifecycle
from mcp_app.protocol.state_table import InvalidTransition

EVERY = [lifecycle, event_stream, call_state]


def transitions(module: ModuleType) -> list[tuple[ModuleType, StrEnum, StrEnum]]:
    return [(module, state, event) for state in module.State for event in module.Event]


@pytest.mark.parametrize("module", EVERY)
def test_every_state_has_a_row_and_every_state_but_the_first_can_be_reached(module: ModuleType) -> None:
    assert set(module.TABLE) == set(module.State)
    reached = {following for row in module.TABLE.values() for following in row.values()}
    assert set(module.State) - reached <= {next(iter(module.State))}


@pytest.mark.parametrize(
    ("module", "state", "event"), [row for module in EVERY for row in transitions(module)]
)
def test_an_event_leads_to_a_state_or_names_why_not(
    module: ModuleType, state: StrEnum, event: StrEnum
) -> None:
    following = module.TABLE[state].get(event)
    if following is not None:
        assert module.next_state(str(state), str(event)) is following
        return
    with pytest.raises(InvalidTransition, match=f"'{event}' cannot happen in the state '{state}'"):
        module.next_state(state, event)


@pytest.mark.parametrize("module", EVERY)
def test_words_of_no_table_are_refused(module: ModuleType) -> None:
    first = next(iter(module.State))
    with pytest.raises(InvalidTransition):
        module.next_state(first, "nonsense")
    with pytest.raises(ValueError, match="nonsense"):
        module.next_state("nonsense", "end")


@pytest.mark.requirement("LIFE-07")
@pytest.mark.parametrize("state", ["initializing", "operating", "ended"])
def test_a_session_is_initialized_once(state: str) -> None:
    with pytest.raises(InvalidTransition):
        lifecycle.next_state(state, "initialize")


@pytest.mark.requirement("LIFE-05")
def test_before_initialized_the_server_serves_but_does_not_ask() -> None:
    assert lifecycle.next_state("initializing", "request") == "initializing"
    with pytest.raises(InvalidTransition):
        lifecycle.next_state("initializing", "ask")


@pytest.mark.requirement("SES-05")
@pytest.mark.parametrize("event", [event for event in lifecycle.Event if event != lifecycle.Event.END])
def test_an_ended_session_stays_ended(event: str) -> None:
    assert lifecycle.next_state("ended", "end") == "ended"
    with pytest.raises(InvalidTransition):
        lifecycle.next_state("ended", event)


@pytest.mark.parametrize("kind", sorted(event_stream.APPENDABLE))
def test_nothing_is_appended_after_the_terminal_event(kind: str) -> None:
    assert event_stream.next_state("open", kind) in ("open", "final")
    with pytest.raises(InvalidTransition):
        event_stream.next_state("final", kind)


@pytest.mark.requirement("T-POLL-03")
def test_closing_a_connection_does_not_end_its_stream() -> None:
    assert event_stream.next_state("open", "close") == "open"


@pytest.mark.parametrize("state", sorted(call_state.TERMINAL))
def test_a_call_has_exactly_one_outcome(state: str) -> None:
    assert call_state.is_terminal(state)
    assert call_state.TABLE[call_state.State(state)] == {}


@pytest.mark.requirement("CAN-01")
@pytest.mark.parametrize("state", [state for state in call_state.State if not call_state.is_terminal(state)])
def test_a_call_can_be_cancelled_until_it_is_over(state: str) -> None:
    assert call_state.next_state(state, "cancel") == "cancelled"
