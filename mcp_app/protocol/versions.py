"""The published protocol revisions, their eras, and version negotiation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

V2024_11_05: Final = "2024-11-05"
V2025_03_26: Final = "2025-03-26"
V2025_06_18: Final = "2025-06-18"
V2025_11_25: Final = "2025-11-25"
V2026_07_28: Final = "2026-07-28"

LEGACY: Final[tuple[str, ...]] = (V2025_11_25, V2025_06_18, V2025_03_26, V2024_11_05)
MODERN: Final[tuple[str, ...]] = (V2026_07_28,)
SERVED: Final[tuple[str, ...]] = MODERN + LEGACY

LEGACY_NAMES: Final = frozenset(LEGACY)


def is_modern(name: str) -> bool:
    """Return True if a version name is not one of the four legacy names. The version may be unknown."""
    return name not in LEGACY_NAMES


def negotiate(requested: str, served: Sequence[str]) -> str:
    """Return the version that answers an ``initialize`` request for ``requested`` (lifecycle, VER-02).

    Only legacy versions are negotiated, even if ``served`` contains others. Raise ValueError if it contains
    no legacy version, which is a configuration error.
    """
    handshake = [name for name in served if name in LEGACY_NAMES]
    if not handshake:
        raise ValueError("No handshake version is served: enable at least one of " + ", ".join(LEGACY) + ".")
    # The names are dates, so the newest version has the greatest name.
    return requested if requested in handshake else max(handshake)
