"""The exceptions raised in application code whose call is stopped."""

from __future__ import annotations

from mcp_app.foreign_code import Passing


class Cancelled(Exception):
    """The caller no longer waits for this call. Stop and clean up."""


class Suspended(Passing):
    """The call ends here with a question to its client.

    Do not catch it, as CancelledError. Not a subclass of Exception, so that ``except Exception`` does not
    treat it as a failure.
    """
