from __future__ import annotations

import pytest

from mcp_app.protocol.errors import InvalidParams
from mcp_app.protocol.messages.logging import DEFAULT_LEVEL, LEVELS, at_least, check_level


@pytest.mark.requirement("LOG-01")
@pytest.mark.parametrize("level", LEVELS)
def test_the_eight_levels_are_accepted(level: str) -> None:
    assert len(LEVELS) == 8
    assert check_level(level) == level


@pytest.mark.requirement("LOG-01")
@pytest.mark.parametrize("level", ["verbose", "INFO", "", None, 3, ["info"]])
def test_any_other_level_is_refused_with_the_list(level: object) -> None:
    with pytest.raises(InvalidParams, match="debug, info, notice"):
        check_level(level)


@pytest.mark.requirement("LOG-02")
def test_messages_at_and_above_the_level_pass() -> None:
    passing = [level for level in LEVELS if at_least(level, "error")]
    assert passing == ["error", "critical", "alert", "emergency"]
    assert all(at_least(level, "debug") for level in LEVELS)
    assert DEFAULT_LEVEL == "info"


@pytest.mark.parametrize(("level", "threshold"), [("loud", "info"), ("info", "loud")])
def test_a_word_that_is_no_level_is_our_mistake(level: str, threshold: str) -> None:
    with pytest.raises(ValueError, match="'loud' is not a log level"):
        at_least(level, threshold)
