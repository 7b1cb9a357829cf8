"""The tools of the benchmark: one echo and any number of fillers, the same for our server and the peer."""

from __future__ import annotations

FILLER_DESCRIPTION = "Repeat a text as often as wanted and answer with the whole."


def filler_names(total: int) -> list[str]:
    """Return the names of the tools besides ``echo``, so that there are ``total`` tools."""
    return [f"repeat_{number:04d}" for number in range(1, total)]
