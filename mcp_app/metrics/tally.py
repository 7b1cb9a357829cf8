"""What one process counted of rare things since it last reported; any thread may count."""

from __future__ import annotations

import threading
from collections import Counter

from mcp_app.metrics.counts import Increment

_counting = threading.Lock()
_counted: Counter[tuple[str, str]] = Counter()


def note(kind: str, result: str) -> None:
    """One more of a kind; both words are ours, so that clients cannot create new labels."""
    with _counting:
        _counted[kind, result] += 1


def take() -> list[Increment]:
    """What was counted since the last time, as increments; from now on it counts from nothing."""
    with _counting:
        found = [(f"{kind} ", "", result, count) for (kind, result), count in _counted.items()]
        _counted.clear()
    return found
