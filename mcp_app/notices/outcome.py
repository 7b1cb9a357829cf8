"""The exception for notifications that could not be delivered."""

from __future__ import annotations


class Undelivered(Exception):
    """Raised if a notification was not delivered. The message is shown to the user who chose the channel."""
