"""What application code meets when its call is stopped, whatever it was doing."""

from __future__ import annotations

from mcp_app.foreign_code import Passing


class Cancelled(Exception):
    """The caller no longer waits for this call; stop and clean up."""


class Suspended(Passing):
    """The call ends here, with a question to its client. Let it pass, as CancelledError.

    No Exception, so that code which handles any of those does not take it for a failure.
    """
