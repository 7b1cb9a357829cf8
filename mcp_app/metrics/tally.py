"""Counts of rare events in one process since its last report. Thread-safe."""

from __future__ import annotations

import threading
from collections import Counter

from mcp_app.metrics.counts import Increment

_counting = threading.Lock()
_counted: Counter[tuple[str, str]] = Counter()


def note(kind: str, result: str) -> None:
    """Count one event. Clients must not choose an argument, so that they cannot create labels.

    The arguments are constants of this app, or names that administrators gave.
    """
    with _counting:
        _counted[kind, result] += 1


def refused(code: str) -> None:
    """Count a refused call. Every refusal code reaches the metrics through this function."""
    note("refusal", code)


def take() -> list[Increment]:
    """Return the counts since the previous call as increments, and reset them."""
    with _counting:
        found = [(f"{kind} ", "", result, count) for (kind, result), count in _counted.items()]
        _counted.clear()
    return found
