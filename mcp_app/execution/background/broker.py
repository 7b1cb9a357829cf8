"""Redis as Celery's broker, also when it takes no writes for a while: it or its disk is full (R13, R14).

Kombu takes such an answer for a fault of the program: Celery ends, and so do the jobs that run in it. Here it
is an outage of the broker, which Celery sits out; what Redis answered stands in the log.

Kombu makes a client for each command; making one takes longer than the command, so here it is kept.
"""

from __future__ import annotations

from typing import Any, Final

from kombu.transport import redis, virtual

# From Kombu's own Redis library: it makes the clients here, not we.
ResponseError: Final[type[Exception]] = redis.redis.exceptions.ResponseError  # type: ignore[attr-defined]


class QoS(redis.QoS):
    """What is delivered and not yet acknowledged."""

    def ack(self, delivery_tag: str) -> None:
        """Acknowledge a message, or else have it delivered once more: its call is over and is left alone."""
        try:
            super().ack(delivery_tag)  # type: ignore[no-untyped-call]
        except ResponseError:
            # Not to forget it here would keep its place for ever, and this worker would take no more jobs.
            virtual.QoS.ack(self, delivery_tag)  # type: ignore[no-untyped-call]


class Channel(redis.Channel):
    """A channel with that book-keeping, and one client for its ordinary commands."""

    QoS = QoS
    _kept: Any = None

    def _create_client(self, asynchronous: bool = False) -> Any:
        """A client of the pool the channel has now; that changes when the connection is lost."""
        if asynchronous:
            return super()._create_client(asynchronous=True)  # type: ignore[no-untyped-call]
        if self._kept is None or self._kept.connection_pool is not self.pool:
            self._kept = super()._create_client()  # type: ignore[no-untyped-call]
        return self._kept


class Transport(redis.Transport):
    """``CELERY_BROKER_TRANSPORT = "mcp_app.execution.background.broker:Transport"``."""

    Channel = Channel
    connection_errors = (*redis.Transport.connection_errors, ResponseError)
