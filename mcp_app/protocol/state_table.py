"""How a transition table is looked up; it knows none of the tables."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

_State = TypeVar("_State", bound=StrEnum)


class InvalidTransition(Exception):
    """The event cannot happen in this state; whose fault that is only the caller knows."""

    def __init__(self, state: str, event: str) -> None:
        super().__init__(f"'{event}' cannot happen in the state '{state}'.")
        self.state = state
        self.event = event


def look_up(table: Mapping[_State, Mapping[str, _State]], state: _State, event: str) -> _State:
    """The state that follows. Raises InvalidTransition naming both when the table has no entry."""
    try:
        return table[state][event]
    except KeyError:
        raise InvalidTransition(state, event) from None
