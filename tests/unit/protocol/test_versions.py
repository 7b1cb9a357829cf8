from __future__ import annotations

import pytest

from mcp_app.protocol import versions


@pytest.mark.requirement("VER-01")
def test_revisions_are_listed_newest_first() -> None:
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
def test_a_requested_version_is_answered_with_itself_or_the_newest_handshake_version(
    requested: str, answered: str
) -> None:
    assert versions.negotiate(requested, versions.SERVED) == answered


@pytest.mark.requirement("VER-02")
def test_a_modern_version_is_never_negotiated_by_handshake() -> None:
    assert versions.negotiate("2026-07-28", ("2026-07-28", "2025-06-18", "2025-11-25")) == "2025-11-25"


def test_a_deployment_without_handshake_versions_is_a_configuration_fault() -> None:
    with pytest.raises(ValueError, match="2025-11-25"):
        versions.negotiate("2025-11-25", ("2026-07-28",))


@pytest.mark.parametrize("name", versions.LEGACY)
def test_legacy_names_are_not_modern(name: str) -> None:
    assert not versions.is_modern(name)


@pytest.mark.parametrize("name", ["2026-07-28", "v999.0.0", "bogus", ""])
def test_every_other_name_is_modern(name: str) -> None:
    assert versions.is_modern(name)
