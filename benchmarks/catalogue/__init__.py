"""The tools of the benchmark: one echo and as many more as wanted; the same for our server and the peer."""

from __future__ import annotations

FILLER_DESCRIPTION = "Repeat a text as often as wanted and answer with the whole."


def filler_names(total: int) -> list[str]:
    """Names of the tools beside ``echo``, so that there are ``total`` of them."""
    return [f"repeat_{number:04d}" for number in range(1, total)]
