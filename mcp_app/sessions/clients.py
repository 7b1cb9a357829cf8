"""The operator's record of modern clients, which have no session: one for each client of a principal."""

from __future__ import annotations

from time import monotonic

from mcp_app.sessions.exchange import Exchange
from mcp_app.sessions.message_log import MessageLog

# How often a client is reported again, in case its record has been removed.
AGAIN_SECONDS = 1_800.0
MOST = 10_000


class Clients:
    """Reports the clients that this process serves to the record of clients."""

    def __init__(self, log: MessageLog) -> None:
        self._log = log
        self._told: dict[str, float] = {}

    def seen(self, exchange: Exchange, user_id: int | None, address: str) -> None:
        """A request of a client came in, from a network address."""
        told, now = self._told.get(exchange.record_id), monotonic()
        if told is not None and now - told < AGAIN_SECONDS:
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
