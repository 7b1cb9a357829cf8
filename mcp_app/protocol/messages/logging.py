"""The levels of log messages and their order."""

from __future__ import annotations

from typing import Final

LEVELS: Final[tuple[str, ...]] = (
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
)
DEFAULT_LEVEL: Final = "info"

_RANK: Final = {level: rank for rank, level in enumerate(LEVELS)}


def at_least(level: str, threshold: str) -> bool:
    """Return True if ``level`` is at least as severe as ``threshold``.

    Raise ValueError for an unknown level.
    """
    try:
        return _RANK[level] >= _RANK[threshold]
    except KeyError as error:
        raise ValueError(f"{error.args[0]!r} is not a log level: use one of {', '.join(LEVELS)}.") from None
