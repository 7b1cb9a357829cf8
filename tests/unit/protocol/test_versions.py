from __future__ import annotations

import pytest

from mcp_app.protocol import versions


@pytest.mark.requirement("VER-01")
def test_versions_are_listed_newest_first() -> None:
    assert list(versions.LEGACY) == sorted(versions.LEGACY, reverse=True)
    assert list(versions.SERVED) == sorted({*versions.LEGACY, *versions.MODERN}, reverse=True)


@pytest.mark.requirement("VER-02")
@pytest.mark.parametrize(
    ("requested", "answered"),
    [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("2024-11-05", "2024-11-05"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
        ("9999-12-31", "2025-11-25"),
        ("", "2025-11-25"),
    ],
)
def test_negotiation_returns_requested_or_newest_handshake_version(requested: str, answered: str) -> None:
    assert versions.negotiate(requested, versions.SERVED) == answered


@pytest.mark.requirement("VER-02")
def test_handshake_never_negotiates_modern_version() -> None:
    assert versions.negotiate("2026-07-28", ("2026-07-28", "2025-06-18", "2025-11-25")) == "2025-11-25"


def test_missing_handshake_versions_raise_value_error() -> None:
    with pytest.raises(ValueError, match="2025-11-25"):
        versions.negotiate("2025-11-25", ("2026-07-28",))


@pytest.mark.parametrize("name", versions.LEGACY)
def test_legacy_version_is_not_modern(name: str) -> None:
    assert not versions.is_modern(name)


@pytest.mark.parametrize("name", ["2026-07-28", "v999.0.0", "bogus", ""])
def test_other_version_is_modern(name: str) -> None:
    assert versions.is_modern(name)
