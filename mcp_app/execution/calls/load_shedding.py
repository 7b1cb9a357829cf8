"""Messages of a call that Redis did not accept. They are counted, and their number is reported later."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from mcp_app.protocol.messages import jsonrpc
from mcp_app.protocol.messages.logging import at_least
from mcp_app.sessions.negotiated import Negotiated

LEFT_OUT = "The server could not store messages of this call for a while. Left out here: {}."
# Length in bytes of the part of a notification that contains its method. A tool's own values come after it.
BEGINNING = 64


class Shed:
    """The number of messages that were dropped from one event stream."""

    count = 0

    def count_dropped(self, encoded: bytes) -> None:
        """Count a dropped message. Progress is not counted, because the next report replaces it."""
        if b'"notifications/progress"' not in encoded[:BEGINNING]:
            self.count += 1

    async def report(self, session: Negotiated, append: Callable[[bytes], Awaitable[Any]]) -> None:
        """Report the number of dropped messages to the client, if there are any.

        Raise the errors of ``append``.
        """
        if not self.count:
            return
        notice = _notice(session, self.count)
        if notice is not None:
            await append(notice)
        self.count = 0


def _notice(session: Negotiated, count: int) -> bytes | None:
    """Return the report as a log message (T-RES-08), or None if the session's log level is too high."""
    if not session.log_level or not at_least("warning", session.log_level):
        return None
    params = {"level": "warning", "logger": "mcp.stream", "data": LEFT_OUT.format(count)}
    fitted = session.message("notifications/message", params)
    return None if fitted is None else jsonrpc.encode_notification("notifications/message", fitted)
