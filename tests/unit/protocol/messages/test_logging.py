from __future__ import annotations

import pytest

from mcp_app.protocol.messages.logging import DEFAULT_LEVEL, LEVELS, at_least


@pytest.mark.requirement("LOG-02")
def test_at_least_passes_levels_above_threshold() -> None:
    passing = [level for level in LEVELS if at_least(level, "error")]
    assert passing == ["error", "critical", "alert", "emergency"]
    assert all(at_least(level, "debug") for level in LEVELS)
    assert DEFAULT_LEVEL == "info"


@pytest.mark.parametrize(("level", "threshold"), [("loud", "info"), ("info", "loud")])
def test_unknown_level_raises_value_error(level: str, threshold: str) -> None:
    with pytest.raises(ValueError, match="'loud' is not a log level"):
        at_least(level, threshold)
