"""Operators' records of modern clients, which have no session: one per client of a principal."""

from __future__ import annotations

from time import monotonic

from mcp_app.message_log.log import MessageLog
from mcp_app.sessions.exchange import Exchange

# A client is reported again after this share of the idle time that ends its record. So a client that returns
# to an ended or deleted record is always reported, by any process, and a record without logged messages is
# not ended while its client is active.
AGAIN = 1 / 3
MOST = 10_000


class Clients:
    """The clients served by this process, reported to the database."""

    def __init__(self, log: MessageLog, idle_seconds: float) -> None:
        """Create the reporter. Records without activity for ``idle_seconds`` are ended."""
        self._log = log
        self._again = idle_seconds * AGAIN
        self._told: dict[str, float] = {}

    def seen(self, exchange: Exchange, user_id: int | None, address: str) -> None:
        """Report the client of a request, with its network address, unless it was reported recently."""
        told, now = self._told.get(exchange.record_id), monotonic()
        if told is not None and now - told < self._again:
            return
        if len(self._told) >= MOST:
            self._told.clear()
        self._told[exchange.record_id] = now
        self._log.fact(
            "session.opened",
            session=exchange.record_id,
            principal=exchange.principal_key,
            user=user_id,
            version=exchange.version,
            client_name=exchange.client_name,
            client_version=str(exchange.client_info.get("version", "")),
            # Empty, so that no legacy session can be restored from the record.
            fields={},
            address=address,
        )
