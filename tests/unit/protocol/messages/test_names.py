from __future__ import annotations

import pytest

from mcp_app.protocol.messages.names import check_name, is_valid_name


@pytest.mark.requirement("TOOL-06")
@pytest.mark.parametrize("name", ["a", "A.b-c_9", "get_weather", "x" * 128, "-", "."])
def test_portable_name_is_accepted(name: str) -> None:
    assert is_valid_name(name)
    assert check_name(name) == name


@pytest.mark.requirement("TOOL-06")
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "empty"),
        ("x" * 129, "129 characters"),
        ("a b", "A-Z, a-z"),
        ("a/b", "A-Z, a-z"),
        ("ä", "A-Z, a-z"),
        ("a\n", "A-Z, a-z"),
        ("a,b", "A-Z, a-z"),
    ],
)
def test_invalid_name_is_rejected_with_reason(name: str, problem: str) -> None:
    assert not is_valid_name(name)
    with pytest.raises(ValueError, match=problem):
        check_name(name)
