"""Records of modern clients for operators. Modern clients have no session, so each gets one record."""

from __future__ import annotations

from time import monotonic

from mcp_app.message_log.log import MessageLog
from mcp_app.sessions.exchange import Exchange

# Fraction of the idle time after which a client is reported again. Its record ends after the idle time, so
# the record of an active client never ends, even if no messages are logged. If the record ended or was
# deleted, the next report restores it, from any process.
AGAIN = 1 / 3
MOST = 10_000


class Clients:
    """The modern clients that this process serves. They are reported to the database."""

    def __init__(self, log: MessageLog, idle_seconds: float) -> None:
        """Create the reporter. A record ends after ``idle_seconds`` without activity."""
        self._log = log
        self._again = idle_seconds * AGAIN
        self._reported: dict[str, float] = {}

    def report(self, exchange: Exchange, user_id: int | None, address: str) -> None:
        """Report the client of a request and its network address, unless it has been reported recently."""
        before, now = self._reported.get(exchange.record_id), monotonic()
        if before is not None and now - before < self._again:
            return
        if len(self._reported) >= MOST:
            self._reported.clear()
        self._reported[exchange.record_id] = now
        self._log.fact(
            "session.opened",
            session=exchange.record_id,
            principal=exchange.principal_key,
            user=user_id,
            version=exchange.version,
            client_name=exchange.client_name,
            client_version=str(exchange.client_info.get("version", "")),
            # Empty, because otherwise the record could be loaded as a legacy session.
            fields={},
            address=address,
        )
