"""The exception for a failed notification."""

from __future__ import annotations


class Undelivered(Exception):
    """Raised when a notification was not delivered; the message is for its owner."""
