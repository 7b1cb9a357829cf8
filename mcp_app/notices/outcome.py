"""Says that a notification did not arrive."""

from __future__ import annotations


class Undelivered(Exception):
    """The notification did not arrive; the text is for its owner."""
