"""The exceptions that application code gets when its call is stopped."""

from __future__ import annotations

from mcp_app.foreign_code import Passing


class Cancelled(Exception):
    """Raised in application code whose caller no longer waits. The code should clean up and stop."""


class Suspended(Passing):
    """Raised to end the call with questions to its client.

    Do not catch it, just as you do not catch CancelledError. It is not a subclass of Exception. Therefore
    ``except Exception`` does not treat it as a failure.
    """
