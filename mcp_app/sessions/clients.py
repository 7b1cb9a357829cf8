"""The operator's record of modern clients, which have no session: one for each client of a principal."""

from __future__ import annotations

from time import monotonic

from mcp_app.message_log.log import MessageLog
from mcp_app.sessions.exchange import Exchange

# A client is reported again after this share of the time after which its silence ends its record. So who
# comes back to a record that was ended or removed is always reported, at whichever process, and a record
# without messages, as when none are logged, is not ended while its client is there.
AGAIN = 1 / 3
MOST = 10_000


class Clients:
    """Reports the clients that this process serves to the record of clients."""

    def __init__(self, log: MessageLog, idle_seconds: float) -> None:
        """``idle_seconds``: whose silence lasts longer is taken to be gone."""
        self._log = log
        self._again = idle_seconds * AGAIN
        self._told: dict[str, float] = {}

    def seen(self, exchange: Exchange, user_id: int | None, address: str) -> None:
        """A request of a client came in, from a network address."""
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
            # Nothing that a legacy session could be restored from.
            fields={},
            address=address,
        )
